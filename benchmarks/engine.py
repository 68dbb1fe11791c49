"""The engine beside transformers' own means: `python benchmarks/engine.py [--models tiny] [--episodes 8 32 64]`.

The same episodes of the shop (8 turns, the base's weights, greedy, float32) are played by `HFEngine`, which keeps each
episode's keys and values from turn to turn and takes up an episode's next turn while others are still answered; by the
same turn by turn, each waiting for its longest reply; by `model.generate` on the whole history of each turn (padded on
the left, all episodes in one batch); and by transformers' continuous batching, one manager for all turns, so that its
prefix cache may serve them, whose replies are taken as they come, too. In turn, once without counting at the least
number of episodes, then `--repeats` times; medians. Printed beside: how many replies are the same tokens, and the share
of the time outside the engine.
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
from agentgym_py.engine import Batch, Generation, HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.policy import Policy

TURNS = 8
TURN_BY_TURN = "HFEngine, turn by turn"
BLOCK = 256
"""Tokens of a block of continuous batching's cache, transformers' default."""


class Timed:
    """An engine that answers turn by turn, and the seconds that it took."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.seconds = engine, 0.0
        self.digest: str = engine.digest

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """As the engine."""
        with self.clock():
            return list(self.engine.generate(prompts, params, seeds))

    def sync(self, policy: Policy, version: int) -> None:
        """As the engine."""
        self.engine.sync(policy, version)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Count what happens within."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began


class TimedBatches(Timed):
    """One whose batches others join."""

    def batch(self, params: SamplingParams) -> TimedBatch:
        """An empty one."""
        return TimedBatch(self, self.engine.batch(params))


class TimedBatch(NamedTuple):
    """A batch, and whose clock counts it."""

    engine: TimedBatches
    batch: Batch

    def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
        """As the engine's."""
        with self.engine.clock():
            self.batch.add(key, prompt, seed)

    def ended(self) -> list[tuple[Hashable, Generation]]:
        """As the engine's."""
        with self.engine.clock():
            return self.batch.ended()


class Plain:
    """What both of transformers' means need; greedy, and without the log-probabilities that ours computes."""

    def __init__(self, policy: Policy, episodes: int) -> None:
        self.policy, self.episodes, self.digest = policy, episodes, policy.digest()
        self.model: Any = policy.model.eval()
        self.end = policy.chat.end_of_turn
        self.pad = policy.tokenizer.pad_token_id

    def settings(self, params: SamplingParams) -> GenerationConfig:
        """Greedy, up to the end of a turn."""
        return GenerationConfig(
            do_sample=False, max_new_tokens=params.max_new_tokens, eos_token_id=self.end, pad_token_id=self.pad
        )

    def reply(self, ids: Sequence[int]) -> Generation:
        """These tokens up to the first end of a turn."""
        ids = ids[: ids.index(self.end) + 1] if self.end in ids else ids
        return Generation(tuple(ids), (), "stop" if ids[-1] == self.end else "length")


class WholeHistory(Plain):
    """`model.generate` on all that was said so far, each turn anew."""

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """One batch, padded on the left."""
        width = max(map(len, prompts))
        rows = [[self.pad] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        masks = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        ids, seen = (torch.tensor(each, device=self.model.device) for each in (rows, masks))
        out = self.model.generate(ids, attention_mask=seen, generation_config=self.settings(params))
        return [self.reply(row) for row in out[:, width:].tolist()]


class Continuous(Plain):
    """transformers' continuous batching: one manager, running for the whole batch of episodes."""

    def batch(self, params: SamplingParams) -> Continuous:
        """The manager's own."""
        blocks = self.episodes * -(-self.policy.max_length // 2 // BLOCK)
        self.manager = self.model.init_continuous_batching(
            generation_config=self.settings(params),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=BLOCK, num_blocks=blocks, max_batch_tokens=1024, max_requests_per_batch=self.episodes
            ),
        )
        self.manager.start()
        self.longest, self.asked = params.max_new_tokens, dict[str, Hashable]()
        return self

    def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
        """Queue a prompt."""
        self.asked[self.manager.add_request(list(prompt), max_new_tokens=self.longest)] = key

    def ended(self) -> list[tuple[Hashable, Generation]]:
        """The next reply."""
        while self.asked:
            result = self.manager.get_result(timeout=60)
            if result is None or result.error:
                raise RuntimeError(f"continuous batching failed: {result}")
            if result.is_finished():
                return [(self.asked.pop(result.request_id), self.reply(result.generated_tokens))]
        return []

    def close(self) -> None:
        """End its thread."""
        self.manager.stop(block=True)


def kept_cache(policy: Policy, episodes: int) -> HFEngine:
    """Ours."""
    return HFEngine(policy, slots=episodes)


KINDS: dict[str, Callable[[Policy, int], Any]] = {
    "HFEngine": kept_cache,
    TURN_BY_TURN: kept_cache,
    "generate on the history": WholeHistory,
    "continuous batching": Continuous,
}


def played(name: str, kind: str, episodes: int, longest: int) -> tuple[float, float, list[list[tuple[int, ...]]]]:
    """Seconds of a batch of episodes, the share of them outside the engine, and each episode's replies."""
    made = KINDS[kind](Policy.load(name), episodes)
    engine = (TimedBatches if hasattr(made, "batch") and kind != TURN_BY_TURN else Timed)(made)
    agent = ModelAgent(engine.engine.policy, engine, SamplingParams(temperature=0.0, max_new_tokens=longest))
    jobs = jobs_for([EnvSpec("shop", {"max_steps": TURNS})], "train", range(episodes))
    began = time.perf_counter()
    done = Collector(agent, PlayConfig(slots=episodes)).collect_batch(jobs)
    seconds = time.perf_counter() - began
    if isinstance(engine.engine, Continuous):
        engine.engine.close()
    replies = [[step.tokens.ids for step in each.steps if step.tokens] for each in done]
    return seconds, 1 - engine.seconds / seconds, replies


def rows(name: str, episodes: int, longest: int, repeats: int) -> list[str]:
    """A line a means."""
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    outside: dict[str, list[float]] = {kind: [] for kind in KINDS}
    said: dict[str, list[tuple[int, ...]]] = {}
    for _ in range(repeats):
        for kind in KINDS:
            seconds, share, episodes_said = played(name, kind, episodes, longest)
            taken[kind].append(seconds)
            outside[kind].append(share)
            said[kind] = [reply for one in episodes_said for reply in one]
    lines, ours = list[str](), said["HFEngine"]
    for kind, times in taken.items():
        ratio = median([mine / other for mine, other in zip(times, taken["HFEngine"], strict=True)])
        same = sum(a == b for a, b in zip(ours, said[kind], strict=False))
        lines.append(
            f"| {name} | {episodes} | {kind} | {median(times):.2f} | **{ratio:.2f}** | "
            f"{100 * median(outside[kind]):.1f} % | {same} of {len(ours)} | {sum(map(len, said[kind])):,} |"
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
            played(name, kind, min(args.episodes), args.max_new_tokens)
        for episodes in args.episodes:
            print("\n".join(rows(name, episodes, args.max_new_tokens, args.repeats)), flush=True)


if __name__ == "__main__":
    main()
