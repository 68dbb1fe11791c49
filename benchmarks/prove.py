"""A zoo of real bugs in trainers, and which check finds each: `python benchmarks/prove.py [--only NAME ...]`.

    python benchmarks/prove.py                                  # every bug, each as a patch of a copy of a trainer
    python benchmarks/prove.py --only sign mask                 # those with these words in their names
    python benchmarks/prove.py --clean --seeds 5                # the shipped trainers: count false alarms
    python benchmarks/prove.py --clean --trainers grpo --checks improves

A bug is a patch of a copy of `grpo`, `ppo`, `dpo`, `filtered_bc` or a trainer of trl, and of the modules that it is
made of. Shipped code stays as it is. The table names every check that fails; `improves` is asked if no other fails.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from agentgym_py import registry
from agentgym_py.proof import CHECKS
from agentgym_py.proof.bench import Bench
from agentgym_py.proof.proof import Result, run_check

ROOT = Path(__file__).parent.parent
TRAINERS = (
    "dagger", "distill", "dpo", "filtered_bc", "grpo", "kto", "orpo", "ppo", "r3", "ranking", "reverse_curriculum",
    "trl_dpo", "trl_grpo", "trl_sft", "weighted_bc",
)  # fmt: skip
"""The shipped trainers of a policy."""
CLASSES = {
    "grpo": "GRPO", "ppo": "PPO", "dpo": "DPO", "filtered_bc": "FilteredBC",
    "trl_grpo": "TrlGRPO", "trl_dpo": "TrlDPO", "trl_sft": "TrlSFT",
}  # fmt: skip
PARTS = {
    "tokens": "agentgym_py.policy.tokens", "logprobs": "agentgym_py.policy.logprobs",
    "batch": "agentgym_py.training.rl.batch", "learner": "agentgym_py.training.rl.learner",
    "loop": "agentgym_py.training.rl.loop", "losses": "agentgym_py.training.rl.losses",
    "data": "agentgym_py.training.data", "fit": "agentgym_py.training.fit",
    "rollout": "agentgym_py.training.trl_rollout",
}  # fmt: skip
"""The modules that a copy of a trainer consists of, by their names in the copy."""
Patch = tuple[str, str, str]
"""A file of the copy, a text that it has once, and another text in its place."""


class Bug(NamedTuple):
    """A bug that has ruined trainings, planted in a trainer."""

    name: str
    trainer: str
    check: str
    """The check that should find it."""
    patches: tuple[Patch, ...]


def bug(name: str, trainer: str, check: str, *patches: Patch) -> Bug:
    """Return a bug of these patches."""
    return Bug(name, trainer, check, patches)


_ADVANTAGE = "record.advantages_n = torch.full((record.n,), float(advantage))"
_MASK = "        mask += [0] * len(turn.context) + turn.mask\n    return Sample(ids, mask, tuple(starts), prompt)"
_LEARNT = "            learner.annotate(records)  # log-probabilities of the reference model\n"
BUGS = (
    # ---- what is trained
    bug("off-by-one mask", "grpo", "mask", ("tokens", _MASK, _MASK.replace("ids, mask,", "ids, mask[1:] + [0],"))),
    bug("off-by-one mask", "filtered_bc", "mask",
        ("tokens", _MASK, _MASK.replace("ids, mask,", "ids, mask[1:] + [0],"))),
    bug("loss on observations", "filtered_bc", "mask", ("tokens", _MASK, _MASK.replace("[0] *", "[1] *", 1))),
    bug("logits are not shifted", "dpo", "temperature",
        ("logprobs", "targets_N = labels[:, 1:][mask]", "targets_N = labels[:, :-1][mask]")),
    bug("padding on the left, without a mask", "grpo", "mask",
        ("batch", "ids[r, : place.stop - place.start] =", "ids[r, place.start - place.stop :] ="),
        ("batch", "labels[r, : place.stop - place.start] =", "labels[r, place.start - place.stop :] =")),
    bug("the end of a reply has no loss", "filtered_bc", "tokens",
        ("tokens", "(token < chat.vocab_size)", "(token < chat.vocab_size and token != chat.end_of_turn)")),
    bug("only the first token of a reply has a loss", "filtered_bc", "tokens",
        ("tokens", _MASK, _MASK.replace("+ turn.mask", "+ turn.mask[:1] + [0] * len(turn.mask[1:])"))),
    bug("a token counts by its place in the batch", "grpo", "tokens",
        ("learner", "total = (loss.loss_N * batch.weights_N).sum()",
         "total = (loss.loss_N * batch.weights_N * torch.linspace(0, 1, len(batch.weights_N))).sum()")),
    # ---- the ratio
    bug("temperature is forgotten", "grpo", "temperature",
        ("trainer", "temperature=rollouts.temperature", "temperature=1.0")),
    bug("temperature is forgotten in pi_old alone", "grpo", "tokens",
        ("trainer", _LEARNT, f"{_LEARNT}            from agentgym_py.training.rl.actor_critic import ActorCritic\n"
         "            plain = ActorCritic(policy.model, False, 1.0)\n"
         "            for record, logps in zip(records, learner.logprobs(records, plain)):\n"
         "                record.old_logps_n = logps\n")),
    bug("pi_old is the policy at the start of training", "grpo", "ratio",
        ("trainer", "reference=settings.kl_coef > 0", "reference=True"),
        ("trainer", _LEARNT, f"{_LEARNT}            for record in records:\n"
         "                record.old_logps_n = record.ref_logps_n\n")),
    bug("pi_old is read again before each step", "grpo", "ratio",
        ("trainer", "out.logps_N, batch.old_logps_N, batch.advantages_N, batch.row_N",
         "out.logps_N, out.logps_N.detach(), batch.advantages_N, batch.row_N")),
    bug("pi / pi_old is left out", "ppo", "ratio",
        ("trainer", "out.logps_N, batch.old_logps_N, batch.advantages_N, out.values_N",
         "out.logps_N, out.logps_N.detach(), batch.advantages_N, out.values_N")),
    bug("the ratio is upside down", "grpo", "sign",
        ("trainer", "log_ratio_N = logps_N - old_logps_N", "log_ratio_N = old_logps_N - logps_N")),
    # ---- advantages
    bug("flipped sign", "grpo", "sign", ("trainer", _ADVANTAGE, _ADVANTAGE.replace("float(adv", "-float(adv"))),
    bug("flipped sign", "ppo", "sign",
        ("trainer", "actor.loss_N if importance_N is None", "-actor.loss_N if importance_N is None")),
    bug("the worse episode is the chosen one", "dpo", "sign",
        ("data", "pair_sides(data.trajectories, pair, settings.level)]",
         "pair_sides(data.trajectories, pair, settings.level)][::-1]")),
    bug("advantages across groups", "grpo", "groups",
        ("trainer", "                for group in groups\n                for record in encode_group(",
         "                for group in [[t for group in groups for t in group]]\n"
         "                for record in encode_group(")),
    bug("pairs across tasks", "dpo", "groups",
        ("data", "        data.trajectories, match=", "        mixed(data.trajectories), match="),
        ("data", "def prepare_pairs(", "def mixed(trajectories: Any) -> Any:\n    from dataclasses import replace\n\n"
         "    one = trajectories[0].steps[0].observation\n    return [replace(t, steps=(replace(t.steps[0], "
         "observation=one), *t.steps[1:]), provenance=trajectories[0].provenance) for t in trajectories]\n\n\n"
         "def prepare_pairs(")),
    bug("returns are clipped to [-1, 1]", "grpo", "returns",
        ("trainer", "    return reward + overlong", "    return max(-1.0, min(1.0, reward)) + overlong")),
    bug("truncation is taken for death", "ppo", "truncation",
        ("trainer", "tail=episode.truncated and not scored", "tail=False")),
    bug("death is taken for truncation", "ppo", "truncation",
        ("trainer", "tail=episode.truncated and not scored", "tail=True")),
    # ---- means
    bug("double division by length", "grpo", "length",
        ("losses", '"sequence": [rows * n for n in lengths_B]', '"sequence": [rows * n * n for n in lengths_B]')),
    bug("a mean of the means of microbatches", "grpo", "batching",
        ("learner", "total = (loss.loss_N * batch.weights_N).sum()", "total = loss.loss_N.mean()")),
    bug("a mean of the means of microbatches", "filtered_bc", "batching",
        ("trainer", "bc_loss(logprobs_N, tokens)", "bc_loss(logprobs_N)")),
    # ---- the reference
    bug("the reference trains along", "grpo", "reference",
        ("learner", "frozen = frozen_copy(policy.model, share_base=settings.lora_rank > 0)", "frozen = policy.model")),
    bug("the reference trains along", "ppo", "reference",
        ("learner", "frozen = frozen_copy(policy.model, share_base=settings.lora_rank > 0)", "frozen = policy.model")),
    bug("the reference trains along", "dpo", "reference",
        ("trainer", "refs = [pair.ref_chosen for pair in part], [pair.ref_rejected for pair in part]",
         "refs = logps[0].tolist(), logps[1].tolist()")),
    bug("the KL has the wrong sign", "grpo", "reference",
        ("trainer", 'loss_N = loss_N + logged["kl_loss"]', 'loss_N = loss_N - logged["kl_loss"]')),
    # ---- the loop
    bug("dropout in the sampler", "grpo", "sampler",
        ("trainer", "                learner.step()\n", "                learner.step()\n"
         "                policy.model.train()\n"),
        ("trainer", "            rollouts.release_cache()\n",
         "            rollouts.release_cache()\n            policy.model.eval()\n")),
    bug("dropout in the training alone", "grpo", "sampler",
        ("trainer", _LEARNT, f"{_LEARNT}            policy.model.train()\n"),
        ("trainer", "            if not records:\n", "            policy.model.eval()\n            if not records:\n")),
    bug("the sampler keeps older weights", "grpo", "sampler", ("loop", "            self.rollouts.sync()\n", "")),
    bug("the order comes from the global generator", "grpo", "repeatable",
        ("learner", "            self._passes += 1\n", "            import random\n            self._passes += 1\n"
         "            order = random.sample(order, len(order))\n")),
    # ---- trainers of trl
    bug("loss on observations", "trl_sft", "mask", ("trainer", "part.labels}", "list(part.input_ids)}")),
    bug("the worse episode is the chosen one", "trl_dpo", "sign",
        ("trainer", '"chosen": good, "rejected": bad', '"chosen": bad, "rejected": good')),
    bug("the reference trains along", "trl_dpo", "reference",
        ("trainer", "copy.deepcopy(policy.model)", "copy.copy(fit.model)")),
    bug("dropout in the training alone", "trl_grpo", "sampler",
        ("trainer", "disable_dropout=True", "disable_dropout=False")),
    bug("loss on observations", "trl_grpo", "mask",
        ("rollout", '"env_mask": sample.mask[cut:]', '"env_mask": [1] * len(sample.mask[cut:])')),
    bug("the learning rate has decayed to nothing", "grpo", "improves",
        ("trainer", _LEARNT, f"{_LEARNT}            learner.optimization.scale_learning_rate(1e-5)\n")),
)  # fmt: skip
"""The zoo."""


@contextmanager
def planted(each: Bug, number: int) -> Iterator[Any]:
    """Write a patched copy of a trainer to a temporary folder, and yield its class."""
    package = f"planted_trainer_{number}"
    with TemporaryDirectory(prefix="planted") as folder:
        target = Path(folder) / package
        target.mkdir()
        sources = {"trainer": ROOT / "trainers" / "agentgym_trainers" / f"{each.trainer}.py"}
        sources |= {name: ROOT / f"{module.replace('.', '/')}.py" for name, module in PARTS.items()}
        for name, path in sources.items():
            text = path.read_text(encoding="utf-8")
            for file, old, new in each.patches:
                if file == name:
                    if text.count(old) != 1:
                        raise ValueError(f"{each.name}: {path.name} has {text.count(old)} times {old!r}")
                    text = text.replace(old, new)
            for part, module in PARTS.items():
                text = text.replace(f"{module} import", f"{package}.{part} import")
            (target / f"{name}.py").write_text(text, encoding="utf-8")
        (target / "__init__.py").touch()
        sys.path.insert(0, folder)
        try:
            yield getattr(importlib.import_module(f"{package}.trainer"), CLASSES[each.trainer])
        finally:
            sys.path.remove(folder)


def find(bench: Bench) -> list[Result]:
    """Return the checks that fail; `improves`, which takes longest, is asked if no other does."""
    results = [run_check(bench, name) for name in CHECKS if name != "improves"]
    failing = [result for result in results if result.status == "failed"]
    if failing:
        return failing
    last = run_check(bench, "improves")
    return [last] if last.status == "failed" else []


def zoo(names: Sequence[str], seed: int = 0) -> Iterator[str]:
    """Yield the table of bugs."""
    yield "| trainer | bug | expected | found by | what the first says | seconds |\n|---|---|---|---|---|--:|"
    found = expected = tried = 0
    for number, each in enumerate(BUGS):
        if names and not any(name in f"{each.trainer} {each.name}" for name in names):
            continue
        began = time.process_time()
        with planted(each, number) as trainer:
            failing = find(Bench(trainer, seed=seed))
        checks = [result.check for result in failing]
        first = next((r for r in failing if r.check == each.check), failing[0] if failing else None)
        tried, found, expected = tried + 1, found + bool(failing), expected + (each.check in checks)
        says = first.text[:130].replace("|", "/") if first else ""
        by = ", ".join(checks) or "not found"
        yield f"| {each.trainer} | {each.name} | {each.check} | {by} | {says} | {time.process_time() - began:.1f} |"
    yield f"\n{found} of {tried} bugs found, {expected} of them by the expected check"


def clean(trainers: Sequence[str], checks: Sequence[str], seeds: Sequence[int]) -> Iterator[str]:
    """Yield the table of false alarms: shipped trainers, with all that is drawn drawn again for each seed."""
    yield "| trainer | seed | failed | passed | skipped | gain | seconds |\n|---|--:|---|--:|--:|--:|--:|"
    alarms = asked = 0
    for name in trainers:
        for seed in seeds:
            began, bench = time.process_time(), Bench(registry.load("agentgym.trainers", name), seed=seed)
            results = [run_check(bench, check) for check in checks]
            failing = [f"{result.check}: {result.text}" for result in results if result.status == "failed"]
            number = {status: sum(r.status == status for r in results) for status in ("passed", "skipped")}
            alarms, asked = alarms + len(failing), asked + number["passed"] + len(failing)
            gain = next((f"{r.measured['gain']:.0%}" for r in results if "gain" in r.measured), "")
            seconds = time.process_time() - began
            says = "; ".join(failing).replace("|", "/") or "–"
            yield f"| {name} | {seed} | {says} | {number['passed']} | {number['skipped']} | {gain} | {seconds:.0f} |"
    yield f"\n{alarms} false alarms in {asked} checks, {len(trainers) * len(seeds)} proofs of {len(trainers)} trainers"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="parts of names of bugs or trainers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clean", action="store_true", help="shipped trainers: count false alarms")
    parser.add_argument("--seeds", type=int, default=1, help="for --clean: proofs of each trainer")
    parser.add_argument("--trainers", nargs="+", default=TRAINERS, metavar="TRAINER", help="for --clean")
    parser.add_argument("--checks", nargs="+", default=list(CHECKS), metavar="CHECK", help="for --clean")
    args = parser.parse_args(argv)
    seeds = [args.seed + 100 * number for number in range(args.seeds)]
    lines = clean(args.trainers, args.checks, seeds) if args.clean else zoo(args.only, args.seed)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
