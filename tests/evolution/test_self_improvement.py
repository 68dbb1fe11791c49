"""Rounds that a critic selects, and failures that are tried again after a reflection."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from agentgym_py.collection.replay import replay
from agentgym_py.engine import HFEngine
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.errors import ConfigError, NothingToTrainOnError, RunError
from agentgym_py.evolution import Evolution, EvolveConfig
from agentgym_py.evolution.config import require_compatible
from agentgym_py.evolution.fork import Change, Fork
from agentgym_py.evolution.reflection import (
    NOTE,
    AgentReflection,
    AgentWriter,
    ExpertReflection,
    LLMReflection,
    collect_reflections,
    failures_of,
    forget_note,
    with_bare_rules,
)
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.evolution.selection import RoundSelection
from agentgym_py.feedback import EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.feedback.self_consistency import SelfConsistency
from agentgym_py.feedback.store import read_feedback
from agentgym_py.policy import Policy
from agentgym_py.policy.tokens import encode
from agentgym_py.registry import import_source
from agentgym_py.training import TrainReport
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.selectors import SelectConfig
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.grpo import GRPO
from agentgym_trainers.ppo import PPO

Make = Callable[..., Trajectory]
SMALL = EvolveConfig(
    rounds=2, expert_tasks=3, explore_tasks=4, valid_tasks=1, test_tasks=0, max_new_tokens=3, attempts=2, merge="all",
    select=SelectConfig(threshold=0.5, success_only=False, dedupe=False),
)  # fmt: skip


@dataclass(frozen=True)
class FirstAttempts:
    """A critic that likes the first attempt at each task."""

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        return [ScoreFeedback(EpisodeRef.of(t), float(t.id.endswith("#0")), {}, "", "first") for t in trajectories]


@dataclass(frozen=True)
class Advice:
    """A reflection that says the same of each failure, or nothing."""

    text: str = "search first."

    def reflect(self, failures: Sequence[Trajectory], write: Any) -> list[str]:
        return [self.text for _ in failures]


@dataclass
class Recorder:
    """A trainer that keeps what it got, and moves one weight."""

    got: list[list[Trajectory]] = field(default_factory=list)

    def train(self, policy: Policy, trajectories: Sequence[Trajectory], **_: Any) -> TrainReport:
        self.got.append(list(trajectories))
        policy.model.model.norm.weight.data[0] += 0.01 * len(trajectories)
        return TrainReport(len(trajectories), {}, 0, 0, 0.0)


class Listener:
    """Stops a run in a phase."""

    def __init__(self, stop_at: tuple[int, str] | None = None) -> None:
        self.stop_at = stop_at

    def phase(self, round_number: int, what: str, total: int) -> Any:
        if self.stop_at == (round_number, what):
            raise KeyboardInterrupt
        return lambda _: None

    def training(self, round_number: int, trajectories: int) -> Any:
        if self.stop_at == (round_number, "train"):
            raise KeyboardInterrupt
        return lambda done, total: None

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        pass


def evolution(path: Path, policy: Any, config: EvolveConfig, **changes: Any) -> Evolution:
    """A run of the shop in `path`, new or resumed."""
    folder = RunFolder.open(path) if (path / "run.yaml").exists() else RunFolder.create(path, {})

    def load(name: str | None) -> Policy:
        return Policy.load(name) if name else Policy(copy.deepcopy(policy.model), policy.tokenizer, "base")

    parts: dict[str, Any] = {"trainer": Recorder(), "reporter": Listener(), **changes}
    return Evolution(folder, [EnvSpec("shop", {"max_steps": 10})], config, load_policy=load, **parts)


def explored(run: Evolution, number: int, name: str = "trajectories") -> list[Trajectory]:
    """The stored episodes of a round."""
    return list(store.read(run.folder.round(number) / f"{name}.jsonl"))


# ---- the critic ------------------------------------------------------------------------------------------------------


def test_a_critic_selects_and_the_world_only_watches(tiny_policy: Any, tmp_path: Path) -> None:
    """Its score is the reward; episodes without one are left out; demonstrations and stores keep the world's."""
    run = evolution(tmp_path, tiny_policy, replace(SMALL, critic=FirstAttempts()))
    run.run()
    trainer: Any = run.trainer
    demonstrations, first, second = trainer.got
    assert all(t.success and t.reward > 0.5 for t in demonstrations)
    liked = [t for t in explored(run, 1) if t.id.endswith("#0")]
    assert [t.id for t in first] == [t.id for t in [*demonstrations, *liked]]
    learnt = first[len(demonstrations) :]
    assert all(t.reward == 1.0 and t.success and t.steps[-1].reward_parts == {"feedback": 1.0} for t in learnt)
    assert not any(t.success for t in explored(run, 1))
    assert [t.id for t in second][: len(first)] == [t.id for t in first] and len(second) == len(first) + 4
    metrics = run.folder.metrics(1)
    assert metrics["explored"]["success"]["value"] == 0.0 and metrics["selection"]["kept"] == 4
    assert metrics["critic"]["mean_score"] == 0.5 and metrics["critic"]["scores"] == 8
    assert metrics["critic"]["success_of_kept"]["value"] == 0.0 and metrics["critic"]["success_of_kept"]["n"] == 4
    assert "critic" not in run.folder.metrics(0)
    assert len(read_feedback(run.folder.round(1) / "critic.jsonl")) == 8


def test_without_a_score_an_episode_is_left_out(tiny_policy: Any, tmp_path: Path) -> None:
    """Counted with the reason; with none at all there is nothing to learn from."""
    silent = replace(SMALL, rounds=1, expert_tasks=0, critic=Silent())
    with pytest.raises(NothingToTrainOnError, match="no trajectory was selected"):
        evolution(tmp_path / "none", tiny_policy, silent).run()
    demonstrated = evolution(tmp_path / "demonstrated", tiny_policy, replace(silent, expert_tasks=3))
    with pytest.raises(
        NothingToTrainOnError, match="critic Silent scored none of 8 episodes, 8 of them by this reason: I do not know"
    ):
        demonstrated.run()
    kept = evolution(tmp_path / "empty", tiny_policy, replace(silent, allow_empty=True))
    kept.run()
    assert kept.folder.metrics(1)["selection"]["dropped"] == {"without a score": 8}
    assert kept.folder.metrics(1)["critic"] | {"success_of_scored": 0, "success_of_kept": 0} == {
        "scores": 0, "mean_score": None, "missing": {"I do not know": 8}, "success_of_scored": 0, "success_of_kept": 0,
        "pairwise": None, "tau": None, "calibration_error": None, "brier": None,
    }  # fmt: skip


@dataclass(frozen=True)
class Silent:
    """A critic that says nothing."""

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        return [NoFeedback(EpisodeRef.of(t), "I do not know", "silent") for t in trajectories]


IMPROVING = replace(SMALL, critic=FirstAttempts(), reflection=Advice(), explore_temperatures=[0.3, 1.2])


@pytest.fixture(scope="module")
def whole(tiny_policy: Any, tmp_path_factory: pytest.TempPathFactory) -> Evolution:
    """A run with a critic, a reflection and two temperatures that nothing interrupts; only read it."""
    run = evolution(tmp_path_factory.mktemp("whole") / "run", tiny_policy, IMPROVING)
    run.run()
    return run


def test_an_interrupted_run_ends_the_same(tiny_policy: Any, tmp_path: Path, whole: Evolution) -> None:
    """With a critic, a reflection and two temperatures, stopped in each of their phases, one after the other."""
    for stop in ((1, "critic"), (1, "retries"), (1, "critic-retries"), (2, "train")):
        with pytest.raises(KeyboardInterrupt):
            evolution(tmp_path / "cut", tiny_policy, IMPROVING, reporter=Listener(stop)).run()
    cut = evolution(tmp_path / "cut", tiny_policy, IMPROVING)
    cut.run()
    for number in range(3):
        before, after = (run.folder.metrics(number) | {"seconds": 0} for run in (whole, cut))
        assert before == after
        for path in whole.folder.round(number).glob("*.jsonl"):
            assert path.read_bytes() == (cut.folder.round(number) / path.name).read_bytes()


def test_attempts_take_the_temperatures_in_turn(tiny_policy: Any, tmp_path: Path) -> None:
    """Each has its own in the provenance; the order of the episodes is that of the tasks."""
    config = replace(SMALL, rounds=1, attempts=3, explore_temperatures=[0.3, 1.2], save_episodes=5)
    run = evolution(tmp_path, tiny_policy, replace(config, select=replace(SMALL.select, threshold=-9.0)))
    run.run()
    episodes = explored(run, 1)
    assert [t.provenance.sampling["temperature"] for t in episodes] == [0.3, 1.2, 0.3] * 4
    assert [t.id.partition("#")[2] for t in episodes] == ["0", "1", "2"] * 4


def test_a_potential_has_the_discount_of_the_trainer() -> None:
    """Otherwise it could change the best policy; trainers without a discount are not asked."""
    config = replace(SMALL, explore_tasks=400, merge="last", restart="previous", reward="success + potential")
    require_compatible(config, PPO())
    require_compatible(replace(config, reward_kwargs={"gamma": 0.9}), PPO(gamma=0.9))
    for kwargs, trainer in (({}, PPO(gamma=0.9)), ({"gamma": 0.9}, PPO())):
        with pytest.raises(ConfigError, match=r"reward_kwargs\.gamma is .* and trainer\.gamma is"):
            require_compatible(replace(config, reward_kwargs=kwargs), trainer)
    require_compatible(replace(config, reward_kwargs={"gamma": 0.9}), GRPO())


def test_wrong_settings_are_refused() -> None:
    """Those that contradict each other, and those that an on-policy trainer would ignore."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"critic": FirstAttempts(), "reward": "success"}, "reward cannot be combined with"),
        ({"critic": FirstAttempts(), "select": SelectConfig(threshold=2.0)}, "must be at most 1 with a critic, got 2"),
        ({"explore_temperatures": [0.1, 0.2, 0.3]}, "explore_temperatures has 3 for 2 attempts"),
        ({"explore_temperatures": [-1.0]}, "explore_temperatures: temperature must be 0"),
    ]
    for changes, message in wrong:
        with pytest.raises(ConfigError, match=message):
            replace(SMALL, **changes)
    on_policy = replace(SMALL, merge="last")
    ignored: list[dict[str, Any]] = [
        {"critic": FirstAttempts()}, {"reflection": Advice()}, {"explore_temperatures": [0.5]},
    ]  # fmt: skip
    for changes in ignored:
        with pytest.raises(ConfigError, match=f"{next(iter(changes))} needs an offline trainer"):
            require_compatible(replace(on_policy, **changes), GRPO())


@dataclass(frozen=True)
class Notes(FirstAttempts):
    """A source that reads what was written about earlier episodes."""

    def input_files(self) -> list[Path]:
        return []


def test_a_critic_of_files_is_refused() -> None:
    """It has nothing to say of episodes that are not played yet."""
    with pytest.raises(ConfigError, match="critic must score new episodes, and Notes only reads files"):
        replace(SMALL, critic=Notes())


def test_a_critic_that_compares_needs_attempts() -> None:
    """Known before anything is played; forks of a state can be compared, too."""
    alone = replace(SMALL, attempts=1, critic=SelfConsistency())
    with pytest.raises(ConfigError, match="compares the attempts at a task: set attempts=2 or more"):
        require_compatible(alone, FilteredBC())
    for config in (replace(alone, attempts=2), replace(alone, forks=1), replace(alone, critic=FirstAttempts())):
        require_compatible(config, FilteredBC())


# ---- reflection ------------------------------------------------------------------------------------------------------


def test_failures_are_tried_again_with_the_reflection(tiny_policy: Any, tmp_path: Path) -> None:
    """From the same start, with the text after the rules; they are learnt without it, with the sampled replies."""
    config = replace(SMALL, rounds=1, reflection=Advice(), select=SelectConfig(-9.0, success_only=False, dedupe=False))
    run = evolution(tmp_path, tiny_policy, config)
    run.run()
    trainer: Any = run.trainer
    first, retries = explored(run, 1), explored(run, 1, "retries")
    failures = failures_of(first)
    assert len(failures) == len(retries) == 8
    text = NOTE.format(text="search first.")
    for failure, retry in zip(failures, retries, strict=True):
        assert retry.provenance.note == text and retry.rules == f"{failure.rules}\n\n{text}"
        assert (retry.task_id, retry.provenance.env_seed) == (failure.task_id, failure.provenance.env_seed)
        assert retry.steps[0].observation == failure.steps[0].observation and retry.id != failure.id
        assert replay(retry).holds
        changed = replace(retry, provenance=replace(retry.provenance, note=None))
        assert "rules was" in str(replay(changed).difference)
    assert len({t.id for t in [*first, *retries]}) == 16
    learnt = trainer.got[1][-8:]
    for retry, without in zip(retries, learnt, strict=True):
        assert without.provenance.note is None and without.rules == failures[0].rules
        assert [s.tokens.ids for s in without.steps] == [s.tokens.ids for s in retry.steps if s.tokens]
        as_text = replace(without, steps=tuple(replace(step, tokens=None) for step in without.steps[:1]))
        assert encode(as_text, tiny_policy.chat).input_ids[: len(without.steps[0].tokens.context)] == list(
            without.steps[0].tokens.context
        )
        assert text not in tiny_policy.decode(encode(without, tiny_policy.chat).input_ids)
    reflection = run.folder.metrics(1)["reflection"]
    assert (reflection["retries"], reflection["reflections"], reflection["success"]["n"]) == (8, 8, 4)
    assert run.folder.metrics(1)["explored"]["success"]["n"] == 4 and run.folder.metrics(1)["selection"]["kept"] == 16


def test_a_retry_without_a_step_has_nothing_to_forget(tiny_policy: Any, episode: Make) -> None:
    """A note that does not fit into the context leaves no room for a reply."""
    empty = episode(success=False, reward=0.0)
    empty = replace(empty, provenance=replace(empty.provenance, note="You tried this before."))
    assert forget_note(empty, tiny_policy.chat) is empty


def source_of(folder: Path, text: str) -> Path:
    """Write a source, whose name no other test's source has."""
    path = folder / f"{folder.name}.py"
    path.write_text(text)
    return path


SEVERAL = """\
from functools import partial
def batch(trajectories, *, weight=1.0):
    return [weight for t in trajectories]
def brief(completions, **columns):
    return [0.0 for c in completions]
half = partial(batch, weight=0.5)
class Batch:
    def __call__(self, trajectories):
        return [0.0 for t in trajectories]
"""


@pytest.mark.parametrize(
    ("reward", "seen"),
    [("judge", 3), ("efficiency", 1), *((name, 3) for name in ("batch", "brief", "half", "Batch"))],
)
def test_a_reward_that_compares_attempts_sees_the_first_ones(
    episode: Make, reward: str, seen: int, tmp_path: Path
) -> None:
    """So that a retry is judged beside the attempts at its task; other rewards read the retry alone."""
    source = source_of(tmp_path, SEVERAL)
    reward = f"{source}:{reward}" if reward in SEVERAL else reward
    config = SimpleNamespace(critic=None, reward=reward, reward_kwargs={})
    episodes: Any = SimpleNamespace(config=config, path=lambda number, name: tmp_path / f"{name}.jsonl")
    selection, scored = RoundSelection(episodes, False), list[int]()

    def scorer(played: Sequence[Trajectory]) -> list[float]:
        scored.append(len(played))
        return [float(number) for number in range(len(played))]

    selection._reward = scorer
    found = selection._rewarded(1, "-retries", [episode("a")], [episode("b"), episode("c")])
    assert scored == [seen] and [each.reward for each in found.episodes] == [seen - 1.0]


PROGRAM = """\
ASKED, FAILING = [], []
def judge(tries):
    ASKED.append(tries[0].task_id)
    if tries[0].task_id in FAILING:
        raise ValueError("no answer")
    return [number / len(tries) for number in range(len(tries))]
"""


def judged(path: Path, **changes: Any) -> EvolveConfig:
    """A run whose reward is a judge, a program of this folder."""
    source, select = f"{source_of(path, PROGRAM)}:judge", replace(SMALL.select, threshold=0.4)
    return replace(SMALL, reward="judge", reward_kwargs={"program": source}, select=select, **changes)


def program(path: Path) -> Any:
    """The module of the program, which knows what it was asked."""
    return import_source(str(source_of(path, PROGRAM)))


def test_a_reward_scores_each_episode_once(tiny_policy: Any, tmp_path: Path) -> None:
    """Later rounds that learn from an earlier one, and a resumed run, read its scores from the folder."""
    config = judged(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        evolution(tmp_path / "cut", tiny_policy, config, reporter=Listener((2, "train"))).run()
    evolution(tmp_path / "cut", tiny_policy, config).run()
    asked = list(program(tmp_path).ASKED)
    assert len(asked) == len(set(asked)) == 8
    whole = evolution(tmp_path / "whole", tiny_policy, config)
    whole.run()
    for number in (1, 2):
        rewards = [(tmp_path / name / f"rounds/0{number}/rewards.jsonl").read_bytes() for name in ("cut", "whole")]
        assert rewards[0] == rewards[1] and rewards[0].count(b"\n") == 8
    for path in (tmp_path / "cut" / "rounds" / "01").glob("*.jsonl"):
        assert path.read_bytes() == (whole.folder.round(1) / path.name).read_bytes()


def test_a_judge_that_fails_later_changes_no_earlier_round(tiny_policy: Any, tmp_path: Path) -> None:
    """The retries of a finished round are those of the failures that were judged then."""
    config = judged(tmp_path, reflection=Advice())
    evolution(tmp_path / "run", tiny_policy, replace(config, rounds=1)).run()
    program(tmp_path).FAILING.append(explored(evolution(tmp_path / "run", tiny_policy, config), 1)[0].task_id)
    run = evolution(tmp_path / "run", tiny_policy, config)
    run.run()
    assert run.folder.done(2) and len(explored(run, 1, "retries")) == 8


def test_a_fork_scores_shared_rounds_by_its_own_reward(tiny_policy: Any, tmp_path: Path) -> None:
    """The new reward counts in all merged rounds; the shared retries stay those of the old judge's failures."""
    config = judged(tmp_path, reflection=Advice())
    run = evolution(tmp_path / "run", tiny_policy, replace(config, rounds=1))
    first = run._episodes.jobs(1)[0]
    program(tmp_path).FAILING.append(first.env.make().task(first.task, "train").id)
    run.run()
    assert len(explored(run, 1, "retries")) == 6
    with Fork(run.folder, 1, {"reward": Change("judge", "efficiency")}).start(tmp_path / "fork", {}, {}):
        pass
    select = replace(SMALL.select, threshold=0.0)
    fork = evolution(
        tmp_path / "fork", tiny_policy, replace(config, reward="efficiency", reward_kwargs={}, select=select)
    )
    fork.run()
    for name in ("rewards", "rewards-retries"):
        scores = (fork.folder.round(1) / f"{name}.jsonl").read_text()
        assert "efficiency" in scores and "judge" not in scores
    assert explored(fork, 1, "retries") == explored(run, 1, "retries") and len(explored(fork, 2, "retries")) == 8


@pytest.mark.parametrize("damage", ["{", "[]", '{"episode": 1}'])
def test_damaged_scores_are_refused(tiny_policy: Any, tmp_path: Path, damage: str) -> None:
    """The error names the file; scores of other episodes are made again."""
    config = judged(tmp_path)
    evolution(tmp_path / "run", tiny_policy, replace(config, rounds=1)).run()
    path = tmp_path / "run" / "rounds" / "01" / "rewards.jsonl"
    scores = path.read_text()
    path.write_text(damage)
    run = evolution(tmp_path / "run", tiny_policy, config)
    with pytest.raises(RunError, match=r"rewards\.jsonl is damaged: .*; delete it to have its episodes scored again"):
        run._selection.selected(1)
    path.write_text(scores.replace("#0", "#7"))
    assert run._selection.selected(1) and path.read_text() == scores


def test_without_a_text_a_retry_is_plain(tiny_policy: Any, tmp_path: Path) -> None:
    """A control for reflections: the same tasks, only another attempt."""
    run = evolution(
        tmp_path, tiny_policy, replace(SMALL, rounds=1, reflection=Advice(""), allow_empty=True, expert_tasks=0)
    )
    run.run()
    retries = explored(run, 1, "retries")
    assert retries and all(t.provenance.note is None and "tried" not in t.rules for t in retries)
    assert run.folder.metrics(1)["reflection"]["reflections"] == 0


def test_the_agent_writes_its_own(tiny_policy: Any, tmp_path: Path, episode: Make) -> None:
    """Its engine continues the episode with the request; an episode without room has none, and is still tried."""
    engines = list[HFEngine]()

    def make(policy: Policy) -> HFEngine:
        engines.append(HFEngine(policy))
        return engines[-1]

    writer = AgentWriter(tiny_policy, make, 1.0, 3)
    failed = episode("a", success=False, reward=0.0)
    long = replace(failed, steps=failed.steps * 400)
    texts = AgentReflection(tokens=5).reflect([failed, long], writer)
    assert texts[0] and texts[1] == "" and len(engines) == 1
    assert AgentReflection(tokens=5).reflect([long, failed], writer) == [texts[1], texts[0]]
    assert writer([long], "Why?", 5) == [""] and len(engines) == 2
    with pytest.raises(ConfigError, match="tokens must be at least 1"):
        AgentReflection(tokens=0)


def test_the_expert_names_the_first_wrong_step() -> None:
    """And what it would have replied there; of its own episodes it says nothing."""
    from agentgym_py.agents import ExpertAgent, RandomAgent
    from agentgym_py.collection import Collector, jobs_for

    jobs = jobs_for("maze", "train", range(3))
    played = Collector(RandomAgent()).collect_batch(jobs)
    own = Collector(ExpertAgent(fair=True)).collect_batch(jobs)
    texts = ExpertReflection().reflect([*played, *own], lambda *_: [])
    assert all(text.startswith("after ") and "do not reply" in text for text in texts[:3]) and texts[3:] == [""] * 3


def test_texts_are_kept_block_by_block(episode: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run asks only about the rest; equal failures share a text; what is no text is an error."""
    from agentgym_py.evolution import reflection

    monkeypatch.setattr(reflection, "_BLOCK", 2)
    failures = [episode(str(n), id=str(n), success=False) for n in (0, 1, 2, 3, 0)]
    asked = list[str]()

    class Counting:
        fails = 3

        def reflect(self, failures: Sequence[Trajectory], write: Any) -> list[str]:
            if len(asked) >= self.fails:
                raise KeyboardInterrupt
            asked.extend(t.id for t in failures)
            return [f"about {t.id}\n\n  more" for t in failures]

    counting = Counting()
    counting.fails = 2
    path = tmp_path / "r.jsonl"
    with pytest.raises(KeyboardInterrupt):
        collect_reflections(path, counting, failures, lambda *_: [])
    counting.fails = 99
    texts = collect_reflections(path, counting, failures, lambda *_: [])
    assert texts == [f"about {n} more" for n in (0, 1, 2, 3, 0)] and asked == ["0", "1", "2", "3"]
    assert {json.loads(line)["id"] for line in path.read_text().splitlines()} == {"0", "1", "2", "3"}
    for wrong in ([], [1], None):
        bad = Advice()
        object.__setattr__(bad, "reflect", lambda failures, write, wrong=wrong: wrong)
        with pytest.raises(ConfigError, match=r"the reflection Advice (must return a text|failed)"):
            collect_reflections(tmp_path / f"{wrong}.jsonl", bad, failures[:1], lambda *_: [])


def test_what_counts_as_a_failure(episode: Make) -> None:
    """Not a success, no infrastructure error, and begun at its task's start."""
    lost = episode("a", success=False)
    fork = replace(lost, steps=(replace(lost.steps[0], trained=False), lost.steps[0]))
    broken = episode("a", success=False, stop_reason=StopReason.ERROR, error="gone")
    assert failures_of([lost, episode("a"), fork, broken, episode(success=False)]) == [lost]


def test_a_note_without_rules_is_forgotten_too(episode: Make, tiny_policy: Any) -> None:
    """The opening is then the observation alone; an episode without a note stays as it is."""
    plain = episode("a", rules="")
    noted = replace(plain, rules="Think.", provenance=replace(plain.provenance, note="Think."))
    assert forget_note(noted, tiny_policy.chat) == plain == forget_note(plain, tiny_policy.chat)
    bare = with_bare_rules(noted)
    assert bare.rules == "" and bare.provenance.note and forget_note(bare, tiny_policy.chat) == plain


def test_a_critic_of_groups_sees_a_retry_beside_the_other_attempts(tiny_policy: Any, tmp_path: Path) -> None:
    """Otherwise a single retry would be alone at its task."""
    config = replace(SMALL, rounds=1, critic=SelfConsistency(), reflection=Advice(), allow_empty=True, attempts=2)
    run = evolution(tmp_path, tiny_policy, config)
    run.run()
    feedback = read_feedback(run.folder.round(1) / "critic-retries.jsonl")
    retries = {t.id for t in explored(run, 1, "retries")}
    assert len(feedback) == 2 * len(retries) == 16
    assert sum(isinstance(f, ScoreFeedback) and f.episode.id in retries for f in feedback) == 8


def test_a_model_behind_an_endpoint_writes(tiny_policy: Any, episode: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees the quoted episode; without an answer the text is empty."""
    pytest.importorskip("httpx2")
    pytest.importorskip("uvicorn")
    from agentgym_py import http_client
    from agentgym_py.testing.model_server import ModelServer, serving

    monkeypatch.delenv(http_client.KEY, raising=False)
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.02)
    reply = lambda body: " " if "lift" in body["messages"][0]["content"] else "Search first."  # noqa: E731
    with serving(ModelServer(tiny_policy, chat_reply=reply)) as server:
        failures = [episode("a", success=False), episode("lift", success=False, id="1")]
        texts = LLMReflection("m", server.url, asks=2).reflect(failures, lambda *_: [])
        assert texts == ["Search first.", ""] and len(server.bodies) == 3
        quoted = '{"agent": "Thought: so\\nAction: a"}'
        assert any(quoted in body["messages"][0]["content"] for _, body in server.bodies)
