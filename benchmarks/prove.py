"""A zoo of real bugs in trainers, and false alarms: the tables "Does a proof find bugs?" of docs/results/system.md.

    python benchmarks/prove.py                                  # every bug, each as a patch of a copy of a trainer
    python benchmarks/prove.py --only sign mask                 # those with these words in their names
    python benchmarks/prove.py --clean --seeds 5                # the shipped trainers: count false alarms
    python benchmarks/prove.py --clean --trainers grpo --checks improves

A bug is a patch of a copy of `grpo`, `ppo`, `dpo`, `filtered_bc` or a trainer of trl, and of the modules that it is
made of. Shipped code stays as it is. The table names every check that fails; `improves` is asked if no other fails.

Rows are kept in `benchmarks/prove.planted.jsonl` and `benchmarks/prove.clean.jsonl`. A kept row is not measured again,
and of a kept proof only the checks that it lacks. So 50 proofs can be collected in several sessions: `--minutes 5`
begins no new row after five minutes. `--again` measures all. `--tables` measures nothing and prints the tables of the
rows; `python docs/figures.py` writes them into the docs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from resumable import keep_row, read_state

from agentgym_py import registry
from agentgym_py.evaluation.stats import wilson
from agentgym_py.evaluation.text import format_interval
from agentgym_py.proof import CHECKS
from agentgym_py.proof.bench import Bench
from agentgym_py.proof.proof import Result, run_check

ROOT = Path(__file__).resolve().parents[1]
ROWS = {name: ROOT / "benchmarks" / f"prove.{name}.jsonl" for name in ("planted", "clean")}
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


@dataclass(frozen=True, slots=True)
class PlantedRow:
    """What the checks found in a trainer with a planted bug."""

    trainer: str
    bug: str
    expected: str
    """The check that should find it."""
    seed: int
    checks: Sequence[str]
    """The checks that failed."""
    message: str
    """What the expected check says, or else the first that failed."""
    seconds: float
    """Of CPU time."""

    @property
    def key(self) -> tuple[str, str]:
        """What a row is about."""
        return self.trainer, self.bug


@dataclass(frozen=True, slots=True)
class CleanRow:
    """A proof of a shipped trainer."""

    trainer: str
    seed: int
    checks: Mapping[str, str] = field(default_factory=dict)
    """The status of each check that was asked."""
    failures: Sequence[str] = ()
    """What the checks that failed say."""
    gain: float | None = None
    """Mean gain of the learning curves, as a share of the distance to the optimum."""
    seconds: float = 0.0
    """Of CPU time."""

    @property
    def key(self) -> tuple[str, int]:
        """What a row is about."""
        return self.trainer, self.seed

    @property
    def is_whole(self) -> bool:
        """Whether every check was asked."""
        return self.checks.keys() >= CHECKS.keys()


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


def measure_planted(names: Sequence[str], seed: int, path: Path, again: bool, may_begin: Callable[[], bool]) -> None:
    """Prove the trainers with bugs that have these words in their names, and keep a row for each."""
    kept = {row.key for row in read_state(PlantedRow, path) if row.seed == seed}
    for number, each in enumerate(BUGS):
        is_chosen = not names or any(name in f"{each.trainer} {each.name}" for name in names)
        if not is_chosen or ((each.trainer, each.name) in kept and not again) or not may_begin():
            continue
        began = time.process_time()
        with planted(each, number) as trainer:
            failing = find(Bench(trainer, seed=seed))
        first = next((r for r in failing if r.check == each.check), failing[0] if failing else None)
        row = PlantedRow(
            each.trainer, each.name, each.check, seed, [result.check for result in failing],
            first.text if first else "", round(time.process_time() - began, 1),
        )  # fmt: skip
        keep_row(path, row)
        print(f"{row.trainer}: {row.bug}: {', '.join(row.checks) or 'not found'}; {row.message}", file=sys.stderr)


def measure_clean(
    trainers: Sequence[str], checks: Sequence[str], seeds: Sequence[int], path: Path, again: bool,
    may_begin: Callable[[], bool],
) -> None:  # fmt: skip
    """Prove shipped trainers, with all that is drawn drawn again for each seed, and keep a row for each proof."""
    kept = {row.key: row for row in read_state(CleanRow, path) if not again}
    for seed, name in product(seeds, trainers):
        row = kept.get((name, seed), CleanRow(name, seed))
        missing = [check for check in checks if check not in row.checks]
        if not missing or not may_begin():
            continue
        began, bench = time.process_time(), Bench(registry.load("agentgym.trainers", name), seed=seed)
        results = [run_check(bench, check) for check in missing]
        row = CleanRow(
            name, seed, {**row.checks, **{result.check: result.status for result in results}},
            [*row.failures, *(f"{result.check}: {result.text}" for result in results if result.status == "failed")],
            next((result.measured["gain"] for result in results if "gain" in result.measured), row.gain),
            round(row.seconds + time.process_time() - began, 1),
        )  # fmt: skip
        keep_row(path, row)
        print(f"{name}, seed {seed}: {'; '.join(row.failures) or 'no failure'}, {row.seconds} s", file=sys.stderr)


# ---- tables ----------------------------------------------------------------------------------------------------------


def planted_tables(rows: Sequence[PlantedRow]) -> Iterator[str]:
    """Yield the table of bugs, in the order of `BUGS`, and how many are found."""
    order = [(each.trainer, each.name) for each in BUGS]
    rows = sorted((row for row in rows if row.key in order), key=lambda row: order.index(row.key))
    lines = ["| trainer | planted bug | found by |", "|---|---|---|"]
    for row in rows:
        by = ", ".join(f"`{check}`" for check in row.checks) or "**not found**"
        lines.append(f"| {row.trainer} | {row.bug} | {by} |")
    yield "\n".join(lines)
    found, expected = sum(bool(row.checks) for row in rows), sum(row.expected in row.checks for row in rows)
    yield f"{found} of {len(rows)} bugs are found, {expected} of them by the check that was written for it."


def clean_tables(rows: Sequence[CleanRow]) -> Iterator[str]:
    """Yield the proofs of each trainer, and the share of proofs with a false alarm."""
    lines = ["| trainer | seeds of whole proofs | gain, % | checks | false alarms |", "|---|---|---|--:|---|"]
    for name in sorted({row.trainer for row in rows}):
        proofs = sorted((row for row in rows if row.trainer == name), key=lambda row: row.seed)
        seeds = " ".join(str(row.seed) for row in proofs if row.is_whole) or "–"
        gains = " ".join(f"{100 * row.gain:.0f}" for row in proofs if row.gain is not None) or "–"
        alarms = "; ".join(failure for row in proofs for failure in row.failures).replace("|", "/") or "0"
        lines.append(f"| {name} | {seeds} | {gains} | {sum(map(asked, proofs)) or '–'} | {alarms} |")
    yield "\n".join(lines)
    failed = sum(bool(row.failures) for row in rows)
    share = format_interval(wilson(failed, len(rows))) if rows else "–"
    yield f"{failed} of {len(rows)} proofs have a false alarm, {share}, with {sum(map(asked, rows))} checks."


def asked(row: CleanRow) -> int:
    """Return the number of checks of a proof that apply."""
    return sum(status != "skipped" for status in row.checks.values())


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="parts of names of bugs or trainers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clean", action="store_true", help="shipped trainers: count false alarms")
    parser.add_argument("--seeds", type=int, default=1, help="for --clean: proofs of each trainer")
    parser.add_argument("--trainers", nargs="+", default=TRAINERS, metavar="TRAINER", help="for --clean")
    parser.add_argument("--checks", nargs="+", default=list(CHECKS), metavar="CHECK", help="for --clean")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no new row after these minutes")
    parser.add_argument("--results", type=Path, help="file that keeps the rows")
    parser.add_argument("--again", action="store_true", help="measure kept rows again")
    parser.add_argument("--tables", action="store_true", help="measure nothing; print the tables of the kept rows")
    args = parser.parse_args(argv)
    path = args.results or ROWS["clean" if args.clean else "planted"]
    end = time.monotonic() + 60 * float(args.minutes)

    def may_begin() -> bool:
        return time.monotonic() < end

    if args.clean:
        seeds = [args.seed + 100 * number for number in range(args.seeds)]
        if not args.tables:
            measure_clean(args.trainers, args.checks, seeds, path, args.again, may_begin)
        tables = clean_tables(read_state(CleanRow, path))
    else:
        if not args.tables:
            measure_planted(args.only, args.seed, path, args.again, may_begin)
        tables = planted_tables(read_state(PlantedRow, path))
    print(*tables, sep="\n\n")


if __name__ == "__main__":
    main()
