"""The engine compared with transformers: `python benchmarks/engine.py [--models tiny] [--episodes 8 32 64]`.

The same episodes of the shop (8 turns, the base's weights, greedy, float32) are generated in four ways: by `HFEngine`,
which keeps each episode's keys and values between turns and starts an episode's next turn while others are generated;
by `HFEngine` turn by turn, each turn waiting for its longest reply; by `model.generate` on the whole history of each
turn (padded on the left, all episodes in one batch); and by transformers' continuous batching with its prefix cache,
one manager for all turns, whose replies are taken as they finish. The four alternate, after a warm-up with the fewest
episodes; figures are medians of `--repeats` runs. Also printed: the number of identical replies, and the share of time
outside the engine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import torch
from transformers import GenerationConfig
from transformers.generation import ContinuousBatchingConfig

from agentgym_py.agents import ModelAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.engine import Generation, GenerationBatch, HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.policy import Policy

TURNS = 8
TURN_BY_TURN = "HFEngine, turn by turn"
BLOCK = 256
"""Tokens per block of continuous batching's cache, transformers' default."""


class Timed:
    """A timed engine that generates turn by turn."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.seconds = engine, 0.0
        self.digest: str = engine.digest

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Forward to the engine."""
        with self.clock():
            return list(self.engine.generate(prompts, params, seeds))

    def sync(self, policy: Policy, version: int) -> None:
        """Forward to the engine."""
        self.engine.sync(policy, version)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Time the context."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began


class TimedBatches(Timed):
    """A timed engine with open batches."""

    def batch(self, params: SamplingParams) -> TimedBatch:
        """Open an empty batch."""
        return TimedBatch(self, self.engine.batch(params))


class TimedBatch(NamedTuple):
    """A batch and its timed engine."""

    engine: TimedBatches
    batch: GenerationBatch

    def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
        """Forward to the batch."""
        with self.engine.clock():
            self.batch.add(key, prompt, seed)

    def take_ended(self) -> list[tuple[Hashable, Generation]]:
        """Forward to the batch."""
        with self.engine.clock():
            return self.batch.take_ended()


class Plain:
    """The common part of transformers' two ways; greedy, and without log-probabilities."""

    def __init__(self, policy: Policy, episodes: int) -> None:
        self.policy, self.episodes, self.digest = policy, episodes, policy.digest()
        self.model: Any = policy.model.eval()
        self.end = policy.chat.end_of_turn
        self.pad = policy.tokenizer.pad_token_id

    def settings(self, params: SamplingParams) -> GenerationConfig:
        """Return the settings: greedy, up to the end of a turn."""
        return GenerationConfig(
            do_sample=False, max_new_tokens=params.max_new_tokens, eos_token_id=self.end, pad_token_id=self.pad
        )

    def reply(self, ids: Sequence[int]) -> Generation:
        """Cut tokens after the first end of a turn."""
        ids = ids[: ids.index(self.end) + 1] if self.end in ids else ids
        return Generation(tuple(ids), (), "stop" if ids[-1] == self.end else "length")


class WholeHistory(Plain):
    """`model.generate` on the whole history, in every turn."""

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Generate in one batch, padded on the left."""
        width = max(map(len, prompts))
        rows = [[self.pad] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        masks = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        ids, mask = (torch.tensor(values, device=self.model.device) for values in (rows, masks))
        out = self.model.generate(ids, attention_mask=mask, generation_config=self.settings(params))
        return [self.reply(row) for row in out[:, width:].tolist()]


class Continuous(Plain):
    """transformers' continuous batching with one manager for the whole batch of episodes."""

    def batch(self, params: SamplingParams) -> Continuous:
        """Start the manager."""
        blocks = self.episodes * -(-self.policy.max_length // 2 // BLOCK)
        self.manager = self.model.init_continuous_batching(
            generation_config=self.settings(params),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=BLOCK, num_blocks=blocks, max_batch_tokens=1024, max_requests_per_batch=self.episodes
            ),
        )
        self.manager.start()
        self.longest, self.requests = params.max_new_tokens, dict[str, Hashable]()
        return self

    def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
        """Queue a prompt."""
        self.requests[self.manager.add_request(list(prompt), max_new_tokens=self.longest)] = key

    def take_ended(self) -> list[tuple[Hashable, Generation]]:
        """Wait for the next reply."""
        while self.requests:
            result = self.manager.get_result(timeout=60)
            if result is None or result.error:
                raise RuntimeError(f"continuous batching failed: {result}")
            if result.is_finished():
                return [(self.requests.pop(result.request_id), self.reply(result.generated_tokens))]
        return []

    def close(self) -> None:
        """Stop the manager's thread."""
        self.manager.stop(block=True)


def hf_engine(policy: Policy, episodes: int) -> HFEngine:
    """Make this project's engine."""
    return HFEngine(policy, slots=episodes)


KINDS: dict[str, Callable[[Policy, int], Any]] = {
    "HFEngine": hf_engine,
    TURN_BY_TURN: hf_engine,
    "generate on the history": WholeHistory,
    "continuous batching": Continuous,
}


def run(name: str, kind: str, episodes: int, longest: int) -> tuple[float, float, list[list[tuple[int, ...]]]]:
    """Run a batch of episodes; return its seconds, the share outside the engine, and each episode's replies."""
    inner = KINDS[kind](Policy.load(name), episodes)
    engine = (TimedBatches if hasattr(inner, "batch") and kind != TURN_BY_TURN else Timed)(inner)
    agent = ModelAgent(engine.engine.policy, engine, SamplingParams(temperature=0.0, max_new_tokens=longest))
    jobs = jobs_for([EnvSpec("shop", {"max_steps": TURNS})], "train", range(episodes))
    began = time.perf_counter()
    trajectories = Collector(agent, PlayConfig(slots=episodes)).collect_batch(jobs)
    seconds = time.perf_counter() - began
    if isinstance(engine.engine, Continuous):
        engine.engine.close()
    replies = [[step.tokens.ids for step in t.steps if step.tokens] for t in trajectories]
    return seconds, 1 - engine.seconds / seconds, replies


def rows(name: str, episodes: int, longest: int, repeats: int) -> list[str]:
    """Measure the rows of a number of episodes."""
    times_of: dict[str, list[float]] = {kind: [] for kind in KINDS}
    outside: dict[str, list[float]] = {kind: [] for kind in KINDS}
    replies: dict[str, list[tuple[int, ...]]] = {}
    for _ in range(repeats):
        for kind in KINDS:
            seconds, share, by_episode = run(name, kind, episodes, longest)
            times_of[kind].append(seconds)
            outside[kind].append(share)
            replies[kind] = [reply for episode in by_episode for reply in episode]
    lines, ours = list[str](), replies["HFEngine"]
    for kind, times in times_of.items():
        ratio = median([time / base for time, base in zip(times, times_of["HFEngine"], strict=True)])
        same = sum(a == b for a, b in zip(ours, replies[kind], strict=False))
        lines.append(
            f"| {name} | {episodes} | {kind} | {median(times):.2f} | **{ratio:.2f}** | "
            f"{100 * median(outside[kind]):.1f} % | {same} of {len(ours)} | {sum(map(len, replies[kind])):,} |"
        )
    return lines


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["tiny"])
    parser.add_argument("--episodes", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max_new_tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("| model | episodes | by | seconds | times ours | outside the engine | same replies | tokens sampled |")
    print("|---|--:|---|--:|--:|--:|--:|--:|", flush=True)
    for name in args.models:
        for kind in KINDS:
            run(name, kind, min(args.episodes), args.max_new_tokens)
        for episodes in args.episodes:
            print("\n".join(rows(name, episodes, args.max_new_tokens, args.repeats)), flush=True)


if __name__ == "__main__":
    main()
