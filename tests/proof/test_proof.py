"""Proofs of trainers: what is read off a table, what each check finds, and what a proof says."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scripts import load_script

from agentgym_py import registry
from agentgym_py.agents import AgentReply, ExpertAgent
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.errors import ConfigError, UnknownNameError
from agentgym_py.proof import ALPHA, CHECKS, MIN_GAIN, CurvePoint, Proof, Result, prove
from agentgym_py.proof.bench import EPISODES, PLAIN, SIZES, SMALL, TABLE, Bench
from agentgym_py.proof.checks import Status
from agentgym_py.proof.measures import share_of_distance, unexplained_ratio, upper_bound
from agentgym_py.proof.page import write_proof
from agentgym_py.proof.proof import run_check, summarize
from agentgym_py.proof.table import ACTION_IDS, END_ID, SCALE, VOCABULARY, TableEngine, table_policy
from agentgym_py.proof.watch import Update, Visit, by_turn, read_update
from agentgym_py.proof.world import ACTIONS, BEST_RETURN, proof_spec
from agentgym_py.report.svg import has_matplotlib
from agentgym_py.training import TrainReport


def benchmark() -> Any:
    """`benchmarks/prove.py`, which imports another one."""
    sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
    return load_script("benchmarks/prove.py")


@pytest.fixture(scope="module")
def policy() -> Any:
    """An untrained table."""
    return table_policy()


def update_of(rows: Sequence[int], gradient: Any, logits: Any, iteration: int = 1) -> Update:
    """An update without weights."""
    return Update(iteration, torch.tensor(rows), gradient, logits, torch.zeros(0), False)


# ---- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_coefficients_are_read_off_a_gradient(policy: Any, temperature: float) -> None:
    """Of a loss - sum c log p at a temperature, autograd's gradient gives c back; another temperature does not fit."""
    tree, row = policy.model.model.tree, policy.model.model.tree.rows(policy.chat.opening("task 0"))[-1]
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, len(VOCABULARY), generator=generator, dtype=torch.float64).requires_grad_()
    known = {(row, 5): 0.7, (row, 8): -1.3}
    logps = (logits[0] / temperature).log_softmax(-1)
    (-sum(c * logps[token] for (_, token), c in known.items())).backward()
    visits = [Visit(row, token, number, 0, 0.0) for number, (_, token) in enumerate(known)]
    update = update_of([row], logits.grad, logits.detach())
    reading = read_update(update, visits, tree, temperature)
    assert dict(reading.coefficients) == pytest.approx(known) and reading.misfit < 1e-12
    assert reading.context == reading.unseen == 0
    assert read_update(update, visits, tree, 1.4 * temperature).misfit > 0.005


def test_gradients_in_other_rows_are_told_apart(policy: Any) -> None:
    """Rows of a prompt are context; rows of replies that no episode has are unseen."""
    tree = policy.model.model.tree
    *prompt, row = tree.rows(policy.chat.opening("task 0"))
    other = tree.child(row, 6)
    gradient = torch.zeros(3, len(VOCABULARY), dtype=torch.float64)
    gradient[:, 0], gradient[:, 1] = torch.tensor([0.6, 0.8, 0.0]), 0.0
    update = update_of([prompt[-1], other, row], gradient, torch.zeros_like(gradient))
    reading = read_update(update, [Visit(row, 5, 0, 0, 0.0)], tree, 1.0)
    assert reading.context == pytest.approx(0.6) and reading.unseen == pytest.approx(0.8)


def test_shared_tokens_are_distributed_over_turns(policy: Any) -> None:
    """Two episodes share a token and have one each of their own; a token that disagrees is left over."""
    visits = [Visit(10, 5, 0, 0, 0), Visit(10, 5, 1, 0, 0), Visit(11, 6, 0, 0, 0), Visit(12, 7, 1, 0, 0)]
    update = update_of([], torch.zeros(0, len(VOCABULARY)), torch.zeros(0, len(VOCABULARY)))
    reading = read_update(update, visits, policy.model.model.tree, 1.0)
    right = reading._replace(coefficients={(10, 5): 3.0, (11, 6): 1.0, (12, 7): 2.0})
    turns = by_turn(right, visits)
    assert dict(turns.by_turn) == pytest.approx({(0, 0): 1.0, (1, 0): 2.0}) and turns.spread < 1e-12
    wrong = by_turn(right._replace(coefficients={**right.coefficients, (10, 5): 0.0}), visits)
    assert wrong.spread > 0.3
    unknown = by_turn(right._replace(coefficients={(10, 5): 3.0}), visits)
    assert not unknown.by_turn, "a sum alone does not say what each episode has"


def test_the_exact_return_is_what_episodes_earn() -> None:
    """The mean of sampled episodes agrees; the gradient climbs; a table that does as the expert earns the optimum."""
    bench = Bench(registry.load("agentgym.trainers", "filtered_bc"))
    exact, policy = bench.exact, copy.deepcopy(bench.policy)
    returns = np.array([episode.reward for episode in bench.read(iterations=16).episodes])
    assert abs(returns.mean() - exact(policy).item()) < 4 * returns.std() / math.sqrt(len(returns))
    (step,) = torch.autograd.grad(exact(policy), policy.model.model.table)
    with torch.no_grad():
        before = exact(policy).item()
        policy.model.model.table += 1e-6 * step
        assert float(exact(policy)) > before
        policy.model.model.table.zero_()
        for row, token in exact.best.items():
            policy.model.model.table[row, token] = 20 / SCALE
        assert float(exact(policy)) == pytest.approx(BEST_RETURN, abs=1e-4)


def test_a_table_is_a_causal_model_like_others(policy: Any) -> None:
    """Masked tokens are skipped, a position of 0 starts a row, and padding in front changes what is predicted."""
    ids = policy.chat.opening("task 1")
    whole = policy.model(input_ids=torch.tensor([ids])).logits[0, -1]
    padded = torch.tensor([[0, 0, *ids]])
    masked = policy.model(input_ids=padded, attention_mask=(padded > 0).long()).logits[0, -1]
    packed = policy.model(input_ids=torch.tensor([ids + ids]), position_ids=torch.tensor([[*range(4), *range(4)]]))
    assert torch.equal(whole, masked) and torch.equal(whole, packed.logits[0, -1])
    assert not torch.equal(whole, policy.model(input_ids=padded).logits[0, -1])


def test_a_table_can_be_saved_and_opened(policy: Any, tmp_path: Path) -> None:
    """Its rows mean the same prefixes, so a teacher may come from a folder."""
    from agentgym_py.policy import Policy

    saved = copy.deepcopy(policy)
    with torch.no_grad():
        saved.model.model.table.normal_()
    saved.save(tmp_path / "table")
    ids = torch.tensor([policy.chat.opening("task 2")])
    opened = Policy.load(tmp_path / "table", device="cpu")
    assert torch.equal(opened.model(input_ids=ids).logits, saved.model(input_ids=ids).logits)


def test_the_engine_records_exact_log_probabilities(policy: Any) -> None:
    """A reply depends on its seed alone, and its log-probabilities are those of the table."""
    engine, prompts = TableEngine(policy), [policy.chat.opening(f"task {n}") for n in range(3)]
    params = SamplingParams(temperature=0.7, max_new_tokens=8)
    alone = [engine.generate([prompt], params, [n])[0] for n, prompt in enumerate(prompts)]
    assert engine.generate(prompts, params, range(3)) == alone
    for prompt, reply in zip(prompts, alone, strict=True):
        rows = policy.model.model.tree.rows([*prompt, *reply.ids])[len(prompt) - 1 : -1]
        logps = (policy.model.model.logits_of(torch.tensor(rows)) / 0.7).log_softmax(-1)
        assert list(reply.logprobs) == pytest.approx([float(x[i]) for x, i in zip(logps, reply.ids, strict=True)])


def test_the_world_keeps_the_contract() -> None:
    """Snapshots and expert are exact; the splits have the same tasks, as nothing is held out."""
    from agentgym_py.testing import Settings
    from agentgym_py.testing.runner import run_checks

    checks = ["futures", "expert"]
    report = run_checks(proof_spec(), checks, Settings(episodes=4, memory_episodes=0))
    assert report.ok, [result.line for result in report.results]


def test_experts_write_what_a_table_can_write() -> None:
    """The bare word, without `Action:`, so that an expert's labels can be learnt; other text is no action."""
    with closing(proof_spec().make()) as env:
        env.reset(seed=0, options={"task": 0})
        best = env.expert()[0]
        assert ExpertAgent(fair=True).reply(env) == AgentReply(best) and best in ACTIONS
        assert env.parse(f"{best} please now").action == best and env.parse("please amber").action == "please amber"


# ---- what the checks find --------------------------------------------------------------------------------------------


def test_the_patches_of_all_bugs_fit() -> None:
    """Each copy is a trainer with the settings of the original."""
    zoo = benchmark()
    assert {each.check for each in zoo.BUGS} == CHECKS.keys(), "a check without a bug that it finds proves nothing"
    for number, each in enumerate(zoo.BUGS):
        with zoo.planted(each, 1000 + number) as trainer:
            assert trainer.__module__ == f"planted_trainer_{1000 + number}.trainer" and trainer() == replace(trainer())


@pytest.mark.parametrize("check", [name for name in CHECKS if name != "improves"])
def test_each_check_fails_on_a_bug_and_passes_without(check: str) -> None:
    """The first bug of the zoo that is made for it, and the trainer that the bug was planted in."""
    zoo = benchmark()
    require_found(zoo, next(each for each in zoo.BUGS if each.check == check), 2000 + list(CHECKS).index(check))


@pytest.mark.parametrize("each", [each for each in benchmark().BUGS if each.trainer.startswith("trl_")], ids=str)
def test_bugs_in_trainers_of_trl_are_found(each: Any) -> None:
    """Their loop is trl's, their settings are in part arguments of trl's configuration."""
    pytest.importorskip("trl")
    require_found(benchmark(), each, 3000 + benchmark().BUGS.index(each))


def require_found(zoo: Any, each: Any, number: int) -> None:
    """Assert that a bug's own check fails with it, and passes without."""
    with zoo.planted(each, number) as trainer:
        broken = run_check(Bench(trainer), each.check)
    clean = run_check(Bench(registry.load("agentgym.trainers", each.trainer)), each.check)
    assert (broken.status, clean.status) == ("failed", "passed"), (broken.line, clean.line)
    assert "raised" not in broken.text


@pytest.mark.parametrize("name", benchmark().TRAINERS)
def test_shipped_trainers_pass_what_one_run_shows(name: str) -> None:
    """No false alarm; at least the mask is asked of every trainer."""
    if name.startswith("trl_"):
        pytest.importorskip("trl")
    bench = Bench(registry.load("agentgym.trainers", name), seed=3)
    results = [run_check(bench, check) for check in ("mask", "temperature", "tokens", "sign", "ratio")]
    assert results[0].status == "passed" and not [r.line for r in results if r.status == "failed"]


def test_what_cannot_be_asked_is_skipped_with_a_reason() -> None:
    """Distillation learns from no return; an offline trainer has no ratio, a trainer without a critic no bootstrap."""
    distill = Bench(registry.load("agentgym.trainers", "distill"))
    assert run_check(distill, "sign").text == "it does not learn from returns"
    offline = Bench(registry.load("agentgym.trainers", "orpo"))
    assert run_check(offline, "ratio").status == run_check(offline, "reference").status == "skipped"


class Error(Exception):
    """A stranger's."""


@dataclass(frozen=True)
class Raising:
    """A trainer that fails."""

    def train(self, policy: Any, trajectories: Any, **more: Any) -> TrainReport:
        """Raise."""
        raise Error("no luck")


@dataclass(frozen=True)
class Idle:
    """A trainer that changes nothing."""

    def train(self, policy: Any, trajectories: Any, **more: Any) -> TrainReport:
        """Return."""
        return TrainReport(len(trajectories), {}, 1, 1, 0.0)


def test_a_trainer_that_raises_fails() -> None:
    """With what it raised, and where."""
    proof = prove(Raising, ["mask"], reference="none")
    assert proof.verdict == "failed" and "Error: no luck (" in proof.failed[0].text


class NotANumber(Idle):
    """A trainer that leaves no number."""

    def train(self, policy: Any, trajectories: Any, **more: Any) -> TrainReport:
        """Return."""
        policy.model.model.table.detach().fill_(math.nan)
        return super().train(policy, trajectories, **more)


def test_weights_that_are_not_finite_fail() -> None:
    """By name, with no curve that JSON could not hold."""
    proof = prove(NotANumber(), ["repeatable", "improves"], seeds=2, episodes=4 * EPISODES, reference="none")
    assert [result.check for result in proof.failed] == ["repeatable", "improves"] and not proof.curve
    assert all("the weights are not finite" in result.text for result in proof.failed)


def test_a_trainer_that_does_nothing_fails() -> None:
    """By its gradients, and by its exact return, whose gains are all 0."""
    proof = prove(Idle(), ["mask", "improves"], seeds=2, episodes=4 * EPISODES, reference="none")
    assert [result.check for result in proof.failed] == ["mask", "improves"]
    assert proof.failed[1].measured == {"gain": 0.0, "upper": 0.0}


def test_the_level_of_improves_is_kept() -> None:
    """Trainers whose mean gain is just large enough fail with the probability that is stated, whatever their spread."""
    rng = np.random.default_rng(0)
    for spread in (0.01, 0.2):
        draws = rng.normal(MIN_GAIN, spread, (20_000, 5))
        alarms = np.mean([upper_bound(list(row), 1 - ALPHA) < MIN_GAIN for row in draws])
        assert alarms == pytest.approx(ALPHA, abs=4 * math.sqrt(ALPHA / len(draws)))


def test_curves_are_summarized_at_common_points() -> None:
    """A point that one seed lacks is left out."""
    points = summarize([[(0.0, 1.0), (0.5, 2.0), (1.0, 3.0)], [(0.0, 1.0), (1.0, 2.0)]])
    assert [(point.share, point.mean, point.low, point.high) for point in points] == [(0, 1, 1, 1), (1, 2.5, 2, 3)]
    assert share_of_distance([(0.0, 1.0), (1.0, 1.5)]) == 0.5


# ---- proofs ----------------------------------------------------------------------------------------------------------


def test_a_proof_of_some_checks_is_incomplete() -> None:
    """It has JSON values, and no curve unless it was asked to measure one."""
    seen = list[str]()
    proof = prove("filtered_bc", ["mask", "tokens"], on_result=lambda result: seen.append(result.check))
    body = proof.as_dict()
    assert proof.verdict == body["verdict"] == "incomplete" and seen == ["mask", "tokens"] and not proof.curve
    assert body["results"][0]["about"] and body["level"] == {"alpha": ALPHA, "min_gain": MIN_GAIN}


def test_a_page_has_the_checks_and_both_learning_curves(tmp_path: Path) -> None:
    """Of a proof without a curve the checks alone."""
    points = [CurvePoint(share, 1 + share, 0.5, 2.0) for share in (0.0, 0.5, 1.0)]
    checks = [Result("mask", "only <replies>", "failed", 0.0, "7% of the gradient")]
    text = write_proof(tmp_path / "p.html", Proof("mine", checks, points, "grpo", points, 0, 5, 640)).read_text()
    assert "only &lt;replies&gt;" in text and "7% of the gradient" in text and "failed" in text
    assert "mine: 1 first, 2 last; grpo: 1 first, 2 last" in text or not has_matplotlib()
    assert "0.50 to 2.00" in text and "5 trainings of 640 episodes" in text
    text = write_proof(tmp_path / "p.html", Proof("mine", checks)).read_text()
    assert "<figure>" not in text and "only &lt;replies&gt;" in text
    assert '<table class="prose cards">' in text  # lines of a cell are broken


def test_a_source_and_settings_of_ones_own_are_proven(tmp_path: Path) -> None:
    """The example's trainer by its file; a setting of the user's is kept, others are made plain."""
    source = Path(__file__).parents[2] / "examples" / "plugin" / "odd_coin" / "trainer.py"
    proof = prove(f"{source}:Shortest", ["mask", "temperature", "tokens"])
    assert [result.status for result in proof.results] == ["passed"] * 3
    bench = Bench(registry.load("agentgym.trainers", "grpo")(kl_coef=0.5))
    kept = bench.with_settings({"kl_coef": 0.0, "max_grad_norm": 0.0})
    assert (kept.kl_coef, kept.max_grad_norm) == (0.5, 0.0)


BLURRING: list[tuple[str, dict[str, Any]]] = [
    ("grpo", {"kl_coef": 0.1, "max_grad_norm": 0.01, "learning_rate": 1e-2, "group_size": 2}),
    ("grpo", {"variant": "gspo", "kl_coef": 5.0, "bf16": True, "gradient_checkpointing": True}),
    ("grpo", {"branches": 1, "minibatch_size": 3, "max_kl": 0.01}),
    ("grpo", {"clip_low": 0.0}),
    ("ppo", {"kl_coef": 0.5, "kl_target": 0.1, "critic_warmup": 4}),
    ("ppo", {"entropy_coef": 0.05, "critic_gradient": 1.0, "tasks_per_iteration": 64}),
    ("dpo", {"level": "fork", "beta": 1.0, "batch_size": 1}),
    ("dpo", {"label_smoothing": 0.49}),
    ("ppo", {"clip": 1e-7}),
    ("grpo", {"clip_high": 1e-8}),
]


@pytest.mark.parametrize(("name", "settings"), BLURRING, ids=str)
def test_settings_that_blur_gradients_fail_no_right_trainer(name: str, settings: dict[str, Any]) -> None:
    """Settings that blur gradients are switched off where gradients are read, also in place of the user's."""
    bench = Bench(registry.load("agentgym.trainers", name)(**settings))
    results = [run_check(bench, check) for check in CHECKS if check != "improves"]
    assert not [result.line for result in results if result.status == "failed"]
    assert next(result for result in results if result.check == "repeatable").status == "passed"


def test_a_step_without_a_coefficient_explains_no_ratio() -> None:
    """Tokens with a weight of 0 in both steps say nothing, and are no division by zero."""
    bench = Bench(registry.load("agentgym.trainers", "grpo"))
    run = bench.read()
    first = run.first
    assert first
    still = replace(first, gradient=torch.zeros_like(first.gradient))
    assert unexplained_ratio(bench, run, still, first) is None


@pytest.mark.parametrize("clip", [0.0, 1e-7])
def test_a_clip_of_nothing_skips_the_ratio(clip: float) -> None:
    """Ratios of 1 are clipped by their rounding, which says nothing of the trainer."""
    bench = Bench(registry.load("agentgym.trainers", "ppo")(clip=clip))
    results = [run_check(bench, check) for check in ("tokens", "length", "ratio")]
    assert {(result.status, result.text.partition(",")[0]) for result in results} == {("skipped", f"clip is {clip:g}")}


def test_settings_that_leave_nothing_to_learn_from_prove_nothing() -> None:
    """Every check is skipped with the trainer's reason, none fails, and the proof is not passed."""
    trainer = registry.load("agentgym.trainers", "filtered_bc")(threshold=10.0)
    proof = prove(trainer, seeds=2, episodes=4 * EPISODES, reference="none")
    assert {result.status for result in proof.results} == {"skipped"} and proof.verdict == "incomplete"
    assert "below the trainer's threshold 10" in proof.results[0].text
    whole = [Result(name, "", "skipped" if name == "ratio" else "passed", 0.0, "") for name in CHECKS]
    assert Proof("mine", whole).verdict == "passed"


def test_settings_of_the_user_count_in_whole_trainings() -> None:
    """The learning curve and the repetition are of the trainer as it was given, but for sizes of the short one."""
    bench = Bench(registry.load("agentgym.trainers", "grpo")(kl_coef=0.5, group_size=4))
    assert bench.with_settings(SIZES).kl_coef == bench.with_settings(SIZES, SMALL).kl_coef == 0.5
    assert (bench.with_settings(SIZES).group_size, bench.with_settings(SIZES, SMALL).group_size) == (4, 8)
    assert bench.with_settings(SIZES, PLAIN).kl_coef == 0.0


def test_the_guide_names_every_setting_of_the_proof() -> None:
    """Its page promises that other settings are kept."""
    page = (Path(__file__).parents[2] / "docs" / "guides" / "prove.md").read_text()
    rows = [line for line in page.splitlines() if line.count("|") == 5]
    for name in PLAIN.keys() | SIZES.keys() | SMALL.keys() | TABLE.keys():
        assert any(f"`{name}`" in row for row in rows), name
    (always,) = [row for row in rows if "`gradient_checkpointing`" in row]
    assert TABLE == {"gradient_checkpointing": False} and always.endswith("| off | off | off |")
    (short,) = [row for row in rows if "`group_size`" in row]
    assert all(f"`{name}`" in short for name in SMALL.keys() - TABLE.keys())


def test_the_weight_of_a_length_is_measured_within_groups() -> None:
    """A trainer that plays several groups of a task at once compares each with its own baseline."""
    source = Path(__file__).parents[2] / "examples" / "my_reinforce.py"
    result = run_check(Bench(registry.load("agentgym.trainers", f"{source}:Reinforce")), "length")
    assert result.status == "passed" and result.measured["exponent"] == pytest.approx(-1, abs=0.01)


def test_arguments_of_a_library_are_made_plain_too() -> None:
    """A norm is not clipped by trl's default; an argument of the user's is kept."""
    pytest.importorskip("trl")
    trainer = registry.load("agentgym.trainers", "trl_dpo")
    kept = Bench(trainer(args={"weight_decay": 0.5})).with_settings({"max_grad_norm": 0.0, "weight_decay": 0.0})
    assert kept.args == {"max_grad_norm": 0.0, "weight_decay": 0.5}
    kept = Bench(trainer()).with_settings({"learning_rate": 0.5, "microbatch_tokens": 40})
    assert (kept.learning_rate, kept.args) == (0.5, {}), "a setting of its own is no argument"


@pytest.mark.parametrize("number", [None, 7])
def test_a_table_has_the_loss_of_models_of_transformers(policy: Any, number: int | None) -> None:
    """A mean over the labels that count, or a sum divided by the number that a trainer gives."""
    ids = torch.tensor([[*policy.chat.opening("task 1"), ACTION_IDS[0], END_ID]])
    labels = torch.where(torch.arange(ids.shape[1]) < ids.shape[1] - 2, -100, ids)
    out = policy.model(input_ids=ids, labels=labels, num_items_in_batch=number)
    logps = out.logits[0, -3:-1].log_softmax(-1).gather(-1, ids[0, -2:, None])
    assert float(out.loss) == pytest.approx(-float(logps.sum()) / (number or 2), rel=1e-5)


def test_what_cannot_be_proven_is_refused() -> None:
    """A reward model, adapters, an unknown check, too few seeds."""
    with pytest.raises(ConfigError, match="makes a reward_model"):
        prove("reward_model")
    with pytest.raises(ConfigError, match="lora_rank must be 0"):
        prove(registry.load("agentgym.trainers", "grpo")(lora_rank=4))
    with pytest.raises(UnknownNameError, match="Did you mean 'mask'"):
        prove("grpo", ["masc"])
    with pytest.raises(ConfigError, match="seeds must be at least 2"):
        prove("grpo", seeds=1)
    with pytest.raises(ConfigError, match="episodes 640 are too few for these settings: group_size 1000"):
        prove(registry.load("agentgym.trainers", "grpo")(group_size=1000))


# ---- rows of the benchmark -------------------------------------------------------------------------------------------


def test_the_benchmark_asks_what_a_kept_proof_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof is collected over several calls, and no row is begun after the minutes."""
    zoo, asked = benchmark(), list[tuple[str, int, str]]()

    def check(bench: Bench, name: str) -> Result:
        asked.append((bench.name, bench.seed, name))
        status: Status = "failed" if (bench.seed, name) == (100, "sign") else "skipped" if name == "ratio" else "passed"
        return Result(name, "", status, 0.0, "upside down" if status == "failed" else "", {"gain": 0.25})

    monkeypatch.setattr(zoo, "run_check", check)
    path = tmp_path / "rows.jsonl"
    words = ["--clean", "--trainers", "filtered_bc", "--results", str(path)]
    zoo.main([*words, "--checks", "mask", "ratio"])
    zoo.main([*words, "--checks", "mask", "sign", "--seeds", "2"])
    assert [(seed, name) for _, seed, name in asked] == [
        (0, "mask"), (0, "ratio"), (0, "sign"), (100, "mask"), (100, "sign")
    ]  # fmt: skip
    capsys.readouterr()
    zoo.main([*words, "--seeds", "9", "--minutes", "0"])
    table, says = capsys.readouterr().out.strip().split("\n\n")
    assert len(asked) == 5 and table.endswith("| filtered_bc | – | 25 25 | 4 | sign: upside down |")
    assert says.startswith("1 of 2 proofs have a false alarm, 50.0 %") and says.endswith("with 4 checks.")


def test_returns_that_are_all_above_one_show_no_clipping() -> None:
    """Tripling what they have above 1 changes nothing once they are normalised within a task."""
    from agentgym_trainers.reverse_curriculum import ReverseCurriculum

    bench = Bench(ReverseCurriculum, seed=200)
    first = bench.read().first
    assert first and all(episode.reward >= 1 for episode in bench.read().data(first))
    assert run_check(bench, "returns").status == "skipped"
    assert run_check(Bench(ReverseCurriculum, seed=0), "returns").status == "passed"


def test_the_rows_of_the_docs_are_of_every_bug() -> None:
    """Each bug has a row; proofs are of shipped trainers."""
    zoo = benchmark()
    planted = zoo.read_state(zoo.PlantedRow, zoo.ROWS["planted"])
    assert {row.key for row in planted} == {(each.trainer, each.name) for each in zoo.BUGS}
    clean = zoo.read_state(zoo.CleanRow, zoo.ROWS["clean"])
    assert clean and {row.trainer for row in clean} <= set(zoo.TRAINERS)
