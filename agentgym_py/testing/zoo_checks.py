"""Checks of a model family and a trainer: what `benchmarks/zoo.py` tabulates, and tests require.

Each check raises `AssertionError` if a promise is broken; a family or a trainer that cannot do it raises its own error.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import registry
from agentgym_py.collection import Job, PlayConfig
from agentgym_py.collection.rollouts import Rollouts
from agentgym_py.env import EnvSpec
from agentgym_py.policy.chat_template import with_settings
from agentgym_py.testing.zoo import FAMILIES, build_tokenizer, miniature, trl_template
from agentgym_py.training.trainer import info_of, is_on_policy
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.scores import with_score

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training import TrainReport

Weights = Mapping[str, Any]
CONTENTS = [
    "Where is it?\n\nLook  there.\n", "\nThought: so\n\nAction: go", " Not\n\n\nhere.\t\n", "Action: look \n",
    "\nDone.\n",
]  # fmt: skip
"""A conversation with the line breaks and spaces that a template may change."""
_SETTINGS: Mapping[str, Any] = {
    "epochs": 1, "learning_rate": 1e-3, "tasks_per_iteration": 2, "group_size": 2, "minibatch_size": 4,
    "critic_warmup": 0, "labels": "outcome", "prm_labels": "outcome", "prm_epochs": 1.0, "prm_first_epochs": 1.0,
    "prm_episodes": 4, "mask_truncated_completions": False,
}  # fmt: skip
"""Settings of one step on four episodes; a trainer takes those that it has."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way of training."""

    dtype: str = "float32"
    lora_rank: int = 0
    """Rank of adapters; 0 trains every weight."""


WAYS = {
    "whole": Way(), "adapters": Way(lora_rank=2), "bf16": Way("bfloat16"), "bf16-adapters": Way("bfloat16", 2),
}  # fmt: skip


def require(holds: bool, problem: str) -> None:
    """Raise AssertionError unless a promise holds."""
    if not holds:
        raise AssertionError(problem)


# ---- chat template and engine ----------------------------------------------------------------------------------------


def check_template(name: str) -> None:
    """Opening, replies and turns of a conversation have the ids of the text that the family's template writes."""
    family, chat = FAMILIES[name], miniature(name).chat
    tokenizer = build_tokenizer(family)
    contents = [*CONTENTS]
    contents[3] += "".join([t for t in family.plain if "think" not in t and t.strip("\n▁")][:1])
    if chat.opened:
        contents[1::2] = [f"{chat.opened}Well.\n</think>\n\n{reply}" for reply in contents[1::2]]
    ids = chat.opening(contents[0])
    for reply, observation in zip(contents[1::2], contents[2::2], strict=True):
        ids += chat.reply(reply) + chat.turn(observation)
    messages = [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]
    template = chat.tokenizer.chat_template
    if family.keeps_thoughts:  # as the chat format does
        template = with_settings(trl_template(family.keeps_thoughts), family.thinking, {})
    text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
    require(tokenizer.decode(ids) == text, "the turns' text is not the template's")
    require(ids == tokenizer(text, add_special_tokens=False)["input_ids"], "the turns' ids are not the template's")
    require(chat.tokenizer.added_tokens_decoder[chat.end_of_turn].special, "the end of turn is no special token")


def check_engine(name: str, dtype: str = "float32") -> None:
    """Log-probabilities of two turns are those of a plain forward pass: as sampled, and as a trainer computes them."""
    import torch

    from agentgym_py.engine import HFEngine, SamplingParams
    from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples
    from agentgym_py.policy.tokens import Sample

    policy = miniature(name, dtype)
    engine, params = HFEngine(policy, slots=4), SamplingParams(max_new_tokens=8)
    ids, sampled = policy.chat.opening("a\n\nb"), list[float]()
    mask = [0] * len(ids)
    for turn in range(2):
        (out,) = engine.generate([ids], params, [turn])
        after = policy.chat.turn("c")
        ids, mask = [*ids, *out.ids, *after], mask + [1] * len(out.ids) + [0] * len(after)
        sampled += out.logprobs
    with torch.no_grad():
        learner = agent_logprobs(agent_logits(policy.model, *pad_samples([Sample(ids, mask)])))
        logits = policy.model(torch.tensor([ids])).logits[0, :-1, : policy.vocab_size].float().log_softmax(-1)
    full = torch.stack([logits[place - 1, ids[place]] for place, bit in enumerate(mask) if bit])
    torch.testing.assert_close(learner, full, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.tensor(sampled), full, rtol=0, atol=1e-5)


# ---- trainers --------------------------------------------------------------------------------------------------------


def make_trainer(name: str, way: Way) -> Any:
    """Make a registered trainer that takes one step on four episodes."""
    kind = registry.load("agentgym.trainers", name)
    known = {field.name for field in fields(kind)}
    settings = {**_SETTINGS, "lora_rank": way.lora_rank}
    return kind(**{key: value for key, value in settings.items() if key in known})


def with_teacher(trainer: Any, policy: Policy, folder: Path) -> Any:
    """Give a trainer with the setting `teacher` a copy of the policy with larger weights, saved in `folder`."""
    import torch

    if "teacher" not in {field.name for field in fields(trainer)}:
        return trainer
    teacher = copy.deepcopy(policy)
    with torch.no_grad():
        for weight in teacher.model.parameters():
            weight *= 1.5
    teacher.save(folder)
    return replace(trainer, teacher=str(folder))


def make_rollouts(policy: Policy, spec: EnvSpec, budget: int) -> Rollouts:
    """Make rollouts on two tasks whose episodes score 0 and 1 by turns, because random weights win nothing."""
    from agentgym_py.engine import HFEngine, SamplingParams

    params, jobs = SamplingParams(temperature=1.0, max_new_tokens=4), [Job(spec, number) for number in range(2)]
    rollouts = Rollouts(policy, HFEngine(policy, slots=8), params, jobs, budget, play_config=PlayConfig(seed=0))
    rollouts.scorer = lambda trajectories: [float(number % 2) for number in range(len(trajectories))]
    return rollouts


def play_episodes(policy: Policy, spec: EnvSpec) -> list[Trajectory]:
    """Play two episodes of each of two tasks, of which one counts as good."""
    played = [trajectory for group in make_rollouts(policy, spec, 4).groups(2, 2) for trajectory in group]
    return [replace(with_score(t, float(n % 2)), success=bool(n % 2)) for n, t in enumerate(played)]


def run_trainer(trainer: Any, policy: Policy, spec: EnvSpec, folder: Path) -> TrainReport:
    """Train a policy on four of its own episodes."""
    report: TrainReport
    if is_on_policy(trainer):
        report = trainer.improve(policy, make_rollouts(policy, spec, 4), seed=0, output_dir=folder)
    else:
        report = trainer.train(policy, play_episodes(policy, spec), seed=0, output_dir=folder)
    return report


def check_trainer(name: str, family: str, way: Way, spec: EnvSpec, folder: Path) -> None:
    """A step of a trainer changes what it must, and nothing else; everything is finite; what is saved was trained.

    Raises:
        ConfigError: the trainer does not train in this way; the policy is unchanged.
    """
    from agentgym_py.errors import ConfigError

    policy = miniature(family, way.dtype)
    trainer = with_teacher(make_trainer(name, way), policy, folder / "teacher")
    before, digest = weights_of(policy), policy.digest()
    try:
        report = run_trainer(trainer, policy, spec, folder / "training")
    except ConfigError:
        require(policy.digest() == digest, "a refused training changed the policy")
        raise
    require(all(map(_is_finite, (*report.loss, *report.metrics.values()))), f"a loss or metric is not finite: {report}")
    rate = getattr(trainer, "learning_rate", None)
    require(rate is None or report.metrics.get("learning_rate") == rate, "the report lacks the learning rate")
    require(report.trajectories > 0 and bool(report.loss), "nothing was trained on")
    require(policy.is_finite(), "a weight is not finite")
    if info_of(trainer).output != "policy":
        require(policy.digest() == digest, "a trainer of something else changed the policy")
        check_scorer(info_of(trainer).output, folder / "training", before, play_episodes(policy, spec))
    else:
        check_checkpoint(policy, way, before, folder / "checkpoint")


def check_checkpoint(policy: Policy, way: Way, before: Weights, folder: Path) -> None:
    """A checkpoint holds the trained policy: adapters beside an unchanged base, or weights that all changed."""
    from agentgym_py.policy import Policy
    from agentgym_py.policy.adapters import base_parameters, has_adapters

    policy.save(folder)
    again = Policy.load(folder, dtype=way.dtype, device="cpu")
    require(again.digest() == policy.digest(), "the checkpoint is not the policy that was trained")
    require(has_adapters(again.model) == bool(way.lora_rank), "adapters were merged, or made")
    if way.lora_rank:
        base = {name: weight.detach().float() for name, weight in base_parameters(policy.model)}
        require(not changed(before, base), "the base of the adapters changed")
        b = {name: weight for name, weight in again.model.named_parameters() if ".lora_B." in name}
        still = [name for name, weight in b.items() if not weight.any()]
        require(bool(b) and not still, f"adapters did not learn: {still}")
    else:
        now = weights_of(Policy.load(folder, device="cpu"))  # in float32: the master weights
        still = [name for name in before if name not in changed(before, now)]
        require(not still, f"weights did not change: {still}")


def check_scorer(output: str, folder: Path, before: Weights, trajectories: Sequence[Trajectory]) -> None:
    """A reward model opens, its backbone has changed, and it tells the trajectories apart."""
    import numpy as np

    from agentgym_py.rewards.process_reward_model import ProcessRewardModel
    from agentgym_py.rewards.reward_model import RewardModel

    if output == "reward_model":
        rewards = RewardModel.load(folder, device="cpu")
        policy, scores = rewards.members[0].policy, rewards.score(trajectories)
    else:
        steps = ProcessRewardModel.load(folder, device="cpu")
        policy, scores = steps.policy, np.concatenate(steps.score(trajectories))
    require(bool(np.isfinite(scores).all()) and float(np.ptp(scores)) > 0, f"the scores say nothing: {scores}")
    require(bool(changed(before, weights_of(policy.merged()))), "its backbone did not change")


# ---- export ----------------------------------------------------------------------------------------------------------


def check_export(family: str, spec: EnvSpec, folder: Path) -> None:
    """A checkpoint of trained adapters is exported as a model with the same log-probabilities."""
    import torch

    from agentgym_py.policy import Policy
    from agentgym_py.policy.logprobs import sample_logprobs
    from agentgym_py.policy.tokens import encode
    from agentgym_py.report.export import export, find_source

    policy = miniature(family)
    run_trainer(make_trainer("filtered_bc", WAYS["adapters"]), policy, spec, folder / "training")
    policy.save(folder / "checkpoint")
    export(find_source(str(folder / "checkpoint")), folder / "exported")
    samples = [encode(trajectory, policy.chat) for trajectory in play_episodes(policy, spec)]
    models = (policy.model, Policy.load(folder / "exported", device="cpu").model)
    here, there = (torch.tensor(sample_logprobs(model, samples, 4)) for model in models)
    torch.testing.assert_close(there, here, rtol=0, atol=1e-3)


# ---- the table -------------------------------------------------------------------------------------------------------

Check = Callable[[str, EnvSpec, Path], None]


def _trainer(trainer: str, way: str) -> Check:
    return lambda family, spec, folder: check_trainer(trainer, family, WAYS[way], spec, folder)


COLUMNS: Mapping[str, Sequence[Check]] = {
    "chat template": [lambda family, spec, folder: check_template(family)],
    "engine": [lambda family, spec, folder: check_engine(family)],
    "SFT": [_trainer("filtered_bc", "whole")],
    "DPO": [_trainer("dpo", "whole")],
    "GRPO": [_trainer("grpo", "whole")],
    "LoRA": [_trainer(name, "adapters") for name in ("filtered_bc", "dpo", "grpo")],
    "bf16": [_trainer(name, way) for name in ("filtered_bc", "dpo", "grpo") for way in ("bf16", "bf16-adapters")],
    "export": [check_export],
}
"""The checks of each column of the table."""


def cell(family: str, column: str, spec: EnvSpec, folder: Path) -> str:
    """Return `works`, or the first line of the error that refuses the family."""
    try:
        for number, check in enumerate(COLUMNS[column]):
            check(family, spec, folder / f"{column} {number}")
    except Exception as error:  # whatever refuses it is what the table says
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return "works"


# ---- weights ---------------------------------------------------------------------------------------------------------


def weights_of(policy: Policy) -> Weights:
    """Return a copy of a policy's weights in float32."""
    return {name: weight.detach().float().clone() for name, weight in policy.model.named_parameters()}


def changed(before: Weights, after: Weights) -> set[str]:
    """Return the names of the weights that differ."""
    return {name for name, weight in before.items() if not weight.equal(after[name])}


def _is_finite(number: float) -> bool:
    return abs(number) < float("inf")
