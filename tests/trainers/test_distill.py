from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import AgentGymError, ConfigError
from agentgym_py.policy import logprobs
from agentgym_py.policy.logprobs import agent_logits
from agentgym_py.training.rl.batch import collate
from agentgym_py.training.rl.learner import Learner
from agentgym_trainers.distill import Distill, LocalTeacher, divergence, sampled_loss

KINDS: dict[str, dict[str, Any]] = {
    "reverse_kl": {"kind": "reverse_kl"}, "forward_kl": {"kind": "forward_kl"},
    "jsd": {"kind": "jsd", "beta": 0.3},
}  # fmt: skip
TRL_BETA = {"reverse_kl": 1, "forward_kl": 0, "jsd": 0.3}


@pytest.fixture
def teacher(toy_envs: Any, tmp_path: Path) -> str:
    """Folder of another policy of the same tokens."""
    toy_envs.word_policy(seed=7, spread=0.2).save(tmp_path / "teacher")
    return str(tmp_path / "teacher")


def slow_divergence(student: Any, teacher: Any, kind: str, beta: float = 0.5, temperature: float = 1.0) -> Any:
    """Eq. 1 of the paper, token by token and word by word."""
    tokens = []
    for row, other in zip(student, teacher, strict=True):
        p, q = torch.softmax(row / temperature, 0), torch.softmax(other / temperature, 0)
        mixture, total = [(1 - beta) * a + beta * b for a, b in zip(p, q, strict=True)], torch.zeros(()).double()
        for a, b, m in zip(p, q, mixture, strict=True):
            total = total + {
                "reverse_kl": a * torch.log(a / b), "forward_kl": b * torch.log(b / a),
                "jsd": beta * b * torch.log(b / m) + (1 - beta) * a * torch.log(a / m),
            }[kind]  # fmt: skip
        tokens.append(total)
    return torch.stack(tokens)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("how", KINDS.values(), ids=KINDS)
def test_the_divergence_is_the_papers(loss_checks: Any, how: dict[str, Any], temperature: float) -> None:
    """Value and gradient equal the slow loop's, to 1e-9; it is 0 between equal distributions."""
    student, teacher = (loss_checks.drawn(12, seed=seed).reshape(3, 4) for seed in (1, 2))
    how = how | {"temperature": temperature}
    loss_checks.check_formula(partial(divergence, **how), partial(slow_divergence, **how), student, teacher)
    assert divergence(student, student + 3, **how).abs().max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_that_of_trls_gkd_trainer(toy_envs: Any, loss_checks: Any, teacher: str, kind: str) -> None:
    """Loss and gradients of a batch of episodes equal those of trl's generalized JSD loss, to 1e-8."""
    trl = pytest.importorskip("trl.experimental.gkd.gkd_trainer")
    settings = Distill(teacher=teacher, divergence=kind, beta=0.3, temperature=0.9, max_grad_norm=0.0)  # type: ignore[arg-type]
    policy = loss_checks.doubled(toy_envs.word_policy())
    records = loss_checks.wide(toy_envs.random_records(policy, toy_envs.LENGTHS))
    grader = LocalTeacher(settings, policy)
    loss_checks.doubled(grader.module.model)
    learner = Learner(policy, settings, seed=0, entropy_gradient=False)
    learner.begin_step(records, "token")
    for batch in learner.microbatches(records):
        out = learner.forward(batch, grader.at(batch))
        learner.backward(settings.loss(out, batch), out, batch)
    logged, ours = learner.step(), loss_checks.gradients_of(policy.model)

    policy = loss_checks.doubled(toy_envs.word_policy())
    batch = collate(records, [record.old_logps_n for record in records], torch.device("cpu"))
    shifted = batch.labels[:, 1:]
    logits = [m(input_ids=batch.input_ids, use_cache=False).logits[:, :-1] for m in (policy.model, grader.module.model)]
    loss = trl.GKDTrainer.generalized_jsd_loss(*logits, labels=shifted, beta=TRL_BETA[kind], temperature=0.9)
    loss.backward()
    assert logged["loss"] == pytest.approx(float(loss.detach()), rel=1e-9) and logged["loss"] > 0.01
    loss_checks.check_gradients(ours, loss_checks.gradients_of(policy.model))


def test_the_head_runs_in_pieces(
    toy_envs: Any, loss_checks: Any, teacher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the student's nor the teacher's logits are ever whole, and the step is the same."""
    settings = Distill(teacher=teacher, divergence="jsd", max_grad_norm=0.0)
    policy = loss_checks.doubled(toy_envs.word_policy())
    records = loss_checks.wide(toy_envs.random_records(policy, toy_envs.LENGTHS))
    grader = LocalTeacher(settings, policy)
    loss_checks.doubled(grader.module.model)
    found, largest = [], [10_000, 4]
    for size in largest:
        monkeypatch.setattr(logprobs, "_TOKENS", size)
        monkeypatch.setattr(logprobs, "_LOGITS", size * policy.vocab_size)
        seen = list[int]()

        def watched(student: Any, teacher: Any, seen: list[int] = seen) -> Any:
            seen.append(max(len(student), len(teacher)))
            return divergence(student, teacher, kind="jsd")

        grader._divergence = watched  # type: ignore[assignment]
        learner = Learner(policy, settings, seed=0, entropy_gradient=False)
        learner.begin_step(records, "token")
        for batch in learner.microbatches(records):
            out = learner.forward(batch, grader.at(batch))
            learner.backward(settings.loss(out, batch), out, batch)
        assert max(seen) <= size
        found.append((learner._logged["loss"], loss_checks.gradients_of(policy.model)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    loss_checks.check_gradients(found[1][1], found[0][1])
    assert len(seen) > 4


def test_k1_takes_the_teachers_log_probabilities_alone(
    toy_envs: Any, teacher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An advantage is the teacher's log-probability of the sampled token, by slow passes, less the student's.

    The loss weighs it by the ratio to the policy that sampled.
    """
    from agentgym_py.policy import Policy

    trainer = Distill(teacher=teacher, kl_estimator="k1", tasks_per_iteration=6, temperature=0.8)
    policy = toy_envs.word_policy()
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 6, temperature=0.8, tokens=2)
    _, records = toy_envs.first_records(trainer, rollouts, tmp_path, monkeypatch)
    other = Policy.load(teacher, device="cpu").model
    for record in records:
        theirs = torch.stack(toy_envs.slow_logps(other, record, 0.8))
        own = torch.stack(toy_envs.slow_logps(policy.model, record, 0.8))
        torch.testing.assert_close(record.advantages_n, (theirs - own).detach(), rtol=0, atol=1e-5)
    old = torch.tensor([-1.0, -2.0])
    assert sampled_loss(old + torch.tensor([0.0, 0.5]), old, torch.tensor([2.0, -1.0])).tolist() == pytest.approx(
        [-2.0, torch.tensor(0.5).exp().item()]
    )


@pytest.mark.parametrize("how", ["reverse_kl", "k1"])
def test_the_student_becomes_its_teacher(toy_envs: Any, teacher: str, tmp_path: Path, how: str) -> None:
    """The divergence at the student's own states halves within a few iterations; the teacher stays."""
    from agentgym_py.policy import Policy

    kind = {"kl_estimator": "k1"} if how == "k1" else {"divergence": how}
    trainer = Distill(teacher=teacher, tasks_per_iteration=24, minibatch_size=8, learning_rate=0.01, **kind)  # type: ignore[arg-type]
    before = Policy.load(teacher, device="cpu").digest()
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, 24 * 5, tmp_path / "out", tokens=2)
    gaps = [-row["advantage_mean"] if how == "k1" else row["divergence_loss"] for row in report.history]
    assert gaps[0] > 0.02 and min(gaps) < 0.5 * gaps[0], gaps
    assert Policy.load(teacher, device="cpu").digest() == before


def test_it_is_on_policy_and_frees_the_teacher(
    toy_envs: Any, teacher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The teacher has no gradient, and is on the training's device only while an iteration trains."""
    grader = LocalTeacher(Distill(teacher=teacher), toy_envs.word_policy())
    assert not any(p.requires_grad for p in grader.module.parameters())
    freed = list[str]()
    monkeypatch.setattr("agentgym_py.policy.memory.release_memory", lambda: freed.append("freed"))
    with grader.on_device(torch.device("meta")):
        assert {p.device.type for p in grader.module.parameters()} == {"meta"}
        monkeypatch.setattr(grader.module, "to", lambda device: freed.append(device))
    assert freed == ["cpu", "freed"]


def test_a_teacher_that_cannot_teach_is_refused(toy_envs: Any, tiny_policy: Any, teacher: str, tmp_path: Path) -> None:
    """Before anything runs, in one line."""
    policy = toy_envs.word_policy()
    tiny_policy.save(tmp_path / "other")
    Distill(teacher=teacher).check_policy(policy)
    for name, said in (
        (None, "needs a teacher: set trainer.teacher"), (str(tmp_path / "other"), "has other tokens than the policy"),
        ("tiny", "has other tokens than the policy"), ("https://host/v1", "no server scores given tokens"),
        (str(tmp_path / "none"), "none"),
    ):  # fmt: skip
        for refused in (lambda name=name: Distill(teacher=name).check_policy(policy),
                        lambda name=name: LocalTeacher(Distill(teacher=name), policy)):  # fmt: skip
            with pytest.raises(AgentGymError, match=said) as error:
                refused()
            assert "\n" not in str(error.value)
    assert not Distill(teacher=teacher).uses_reward


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"beta": 1.0}, "beta must be between 0 and 1"), ({"temperature": 0.0}, "temperature"),
        ({"kl_estimator": "k1", "divergence": "jsd"}, "k1 estimates reverse_kl"),
        ({"importance_sampling_correction": True}, "needs kl_estimator k1"),
    ],
)  # fmt: skip
def test_settings_that_contradict_are_refused(settings: dict[str, Any], said: str) -> None:
    """In one line."""
    with pytest.raises(ConfigError, match=said):
        Distill(**settings)


def test_k1_needs_the_sampling_temperature(toy_envs: Any, teacher: str, tmp_path: Path) -> None:
    """The estimate is of the distribution that was sampled from."""
    with pytest.raises(ConfigError, match="k1 needs the sampling temperature"):
        toy_envs.improved(
            toy_envs.CHAIN, replace(Distill(teacher=teacher), kl_estimator="k1"), 8, tmp_path, temperature=0.5
        )


def test_rows_give_the_logits_of_either_kind(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether logits are whole or the head runs in pieces."""
    policy = toy_envs.word_policy()
    (record,) = toy_envs.random_records(policy, [[3, 2]])
    found = []
    for size in (1000, 2):
        monkeypatch.setattr(logprobs, "_TOKENS", size)
        monkeypatch.setattr(logprobs, "_LOGITS", size * policy.vocab_size)
        with torch.no_grad():
            agent = agent_logits(policy.model, record.input_ids[None], record.labels[None])
            found.append(agent.logits_of(agent.rows))
    torch.testing.assert_close(*found)
