from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from agentgym_py.collection.rollouts import Rollouts
from agentgym_py.engine import HFEngine
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, NothingToTrainOnError, RunError, TrainingError
from agentgym_py.evolution import Evolution, EvolveConfig
from agentgym_py.evolution.config import require_compatible
from agentgym_py.evolution.curricula import Outcomes
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.evolution.stopwatch import ELAPSED
from agentgym_py.policy import Policy
from agentgym_py.training import OnPolicyTrainer, TrainReport
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.selectors import SelectConfig
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.r3 import R3

SMALL = EvolveConfig(
    rounds=2, expert_tasks=3, explore_tasks=4, valid_tasks=3, test_tasks=2, max_new_tokens=3,
    select=SelectConfig(threshold=0.0, success_only=False, dedupe=False, mask_invalid=False),
)  # fmt: skip


@dataclass
class Nudge:
    """A trainer that moves one weight by how many trajectories it got: enough to tell rounds apart."""

    got: list[int] = field(default_factory=list)

    def train(self, policy: Policy, trajectories: Sequence[Trajectory], **_: Any) -> TrainReport:
        self.got.append(len(trajectories))
        policy.model.model.norm.weight.data[0] += 0.01 * len(trajectories)
        return TrainReport(len(trajectories), {}, 0, 0, 0.0)


@dataclass
class Player:
    """An on-policy trainer that plays twice, moves one weight in between, and may find nothing to learn."""

    nothing: bool = False

    def improve(self, policy: Policy, rollouts: Rollouts, **_: Any) -> TrainReport:
        rollouts.groups(1, 2)
        if self.nothing:
            raise NothingToTrainOnError("player: nothing to learn")
        policy.model.model.norm.weight.data[0] += 0.01
        rollouts.sync()
        rollouts.groups(1, rollouts.remaining)
        return TrainReport(len(rollouts.episodes), {}, 0, 0, 0.0)


class Listener:
    """Writes down what the loop says."""

    def __init__(self, stop_at: tuple[int, str] | None = None) -> None:
        self.phases: list[tuple[int, str]] = []
        self.rounds: list[int] = []
        self.stop_at = stop_at

    def training(self, round_number: int, trajectories: int) -> Callable[[int, int], None]:
        self.phases.append((round_number, "train"))

        def step(done: int, total: int) -> None:
            if self.stop_at == (round_number, "train") and done == 2:
                raise KeyboardInterrupt

        return step

    def phase(self, round_number: int, what: str, total: int) -> Callable[[Trajectory], None]:
        self.phases.append((round_number, what))
        if self.stop_at == (round_number, what):
            raise KeyboardInterrupt
        return lambda _: None

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        self.rounds.append(number)


def evolution(path: Path, policy: Any, config: EvolveConfig, **changes: Any) -> Evolution:
    """A run of the shop in `path`, new or taken up again."""
    folder = RunFolder.open(path) if (path / "run.yaml").exists() else RunFolder.create(path, {})

    def load(name: str | None) -> Policy:
        return Policy.load(name) if name else Policy(copy.deepcopy(policy.model), policy.tokenizer, "base")

    parts: dict[str, Any] = {"trainer": Nudge(), "reporter": Listener(), **changes}
    if isinstance(parts["trainer"], OnPolicyTrainer):
        parts["cloner"] = Nudge()
    return Evolution(folder, [EnvSpec("shop", {"max_steps": 6})], config, load_policy=load, **parts)


def interrupt(path: Path, policy: Any, config: EvolveConfig, stop: tuple[int, str], **changes: Any) -> None:
    """Start or resume the run in `path` up to this phase of this round."""
    with pytest.raises(KeyboardInterrupt):
        evolution(path, policy, config, reporter=Listener(stop_at=stop), **changes).run()


@pytest.fixture(scope="module")
def whole(tiny_policy: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, dict[str, Any]]:
    """A run of `SMALL` that nothing interrupts, and its result; only read it."""
    run = evolution(tmp_path_factory.mktemp("whole") / "run", tiny_policy, SMALL)
    return run.folder, run.run()


def test_other_seeds_meet_other_training_tasks(
    tiny_policy: Any, tmp_path: Path, whole: tuple[RunFolder, dict[str, Any]]
) -> None:
    """A seed draws its training tasks: each is met once in a run, again by the same seed, and not by another."""

    def tasks(folder: RunFolder) -> list[str]:
        return [t.task_id for r in range(3) for t in store.read(folder.round(r) / "trajectories.jsonl")]

    def run(seed: int) -> RunFolder:
        of_seed = evolution(tmp_path / str(seed), tiny_policy, replace(SMALL, seed=seed, valid_tasks=1, test_tasks=0))
        of_seed.run()
        return of_seed.folder

    first, again, other = tasks(whole[0]), tasks(run(0)), tasks(run(1))
    assert len(set(first)) == len(first) == 3 + 2 * 4
    assert first == again and not set(first) & set(other)


def test_the_cache_of_its_engines_is_bounded(tiny_policy: Any, tmp_path: Path) -> None:
    """`kv_cache_gib` is that of every engine that a run makes itself; with engines of another making it is refused."""
    with pytest.raises(ConfigError, match="raise kv_cache_gib"):
        evolution(tmp_path / "run", tiny_policy, replace(SMALL, rounds=0), kv_cache_gib=1e-6).run()
    with pytest.raises(ConfigError, match="default engine"):
        evolution(tmp_path / "run", tiny_policy, SMALL, engine=HFEngine, kv_cache_gib=1.0)


def test_a_run_leaves_everything_in_plain_files(whole: tuple[RunFolder, dict[str, Any]]) -> None:
    """Each round has its trajectories, evaluation, metrics and checkpoint; explored tasks are new in each round."""
    folder, result = whole
    assert result["last"] == 2 and set(result["rounds"]) >= {"0", "2"}
    asked = [[t.task_id for t in store.read(folder.round(r) / "trajectories.jsonl")] for r in range(3)]
    assert [len(tasks) for tasks in asked] == [3, 4, 4] and len({task for tasks in asked for task in tasks}) == 11
    assert all((folder.round(r) / "checkpoint" / "model.safetensors").is_file() for r in range(3))
    played = list(store.read(folder.round(1) / "trajectories.jsonl"))
    assert all(t.has_tokens and t.provenance.policy_digest == folder.metrics(0)["policy_digest"] for t in played)
    assert {t.split for t in store.read(folder.round(2) / "valid.jsonl")} == {"valid"}
    for summary in (folder.metrics(1)["explored"], folder.metrics(1)["valid"], result["rounds"]["2"]):
        assert summary["worlds"]["shop"]["success"] == summary["success"]


def test_the_expert_teaches_as_it_is_told(tiny_policy: Any, tmp_path: Path) -> None:
    """Which expert makes Agent_v0, and whether it thinks aloud, are settings, and stand in the trajectories."""
    config = replace(SMALL, rounds=0, expert_tasks=12)
    told = evolution(tmp_path / "told", tiny_policy, config)
    exact = evolution(tmp_path / "exact", tiny_policy, replace(config, expert="exact", expert_thoughts=False))
    for run, fair in ((told, True), (exact, False)):
        run.run()
        steps = [s for t in store.read(run.folder.round(0) / "trajectories.jsonl") for s in t.steps]
        assert any(s.thought for s in steps) == fair
        assert any(" with " in s.action for s in steps) == fair  # searches for the options, too


def test_an_interrupted_run_ends_as_if_nothing_had_happened(
    tiny_policy: Any, tmp_path: Path, whole: tuple[RunFolder, dict[str, Any]]
) -> None:
    """Stopped in every phase and resumed, weights, trajectories and results equal the uninterrupted run's."""
    folder, expected = whole
    for stop in ((0, "valid"), (1, "explore"), (1, "valid"), (2, "test")):
        interrupt(tmp_path, tiny_policy, SMALL, stop)
        (elapsed,) = tmp_path.rglob(ELAPSED)  # of the round or the test that was interrupted
        before = 1000 * (stop == (1, "valid"))  # this round was interrupted already
        assert before < json.loads(elapsed.read_text())["seconds"] < before + 1000
        elapsed.write_text('{"seconds": 1000}')
    resumed = evolution(tmp_path, tiny_policy, SMALL)
    result = resumed.run()
    assert result | {"seconds": 0} == expected | {"seconds": 0} != expected
    times = [result["seconds"], *(resumed.folder.metrics(number)["seconds"] for number in range(3))]
    assert [time > 1000 for time in times] == [True, True, True, False] and not list(tmp_path.rglob(ELAPSED))
    for number in range(3):
        names = [each.round(number) / "trajectories.jsonl" for each in (folder, resumed.folder)]
        assert names[0].read_bytes() == names[1].read_bytes()
        digests = [each.metrics(number)["policy_digest"] for each in (folder, resumed.folder)]
        assert digests[0] == digests[1]


def test_adapters_are_kept_through_the_rounds(tiny_policy: Any, tmp_path: Path) -> None:
    """Each round trains the adapters of the one before on one base, which is stored once; a stopped run too."""
    config = replace(SMALL, restart="previous", select=SelectConfig(success_only=False, threshold=-9.0))
    trainer = FilteredBC(
        lora_rank=2, batch_size=1, epochs=1, learning_rate=0.02, checkpoint_minutes=0.0, threshold=-9.0
    )
    whole = evolution(tmp_path / "whole", tiny_policy, config, trainer=trainer)
    expected = whole.run()
    interrupt(tmp_path / "cut", tiny_policy, config, (1, "train"), trainer=trainer)
    resumed = evolution(tmp_path / "cut", tiny_policy, config, trainer=trainer)
    assert resumed.run() | {"seconds": 0} == expected | {"seconds": 0}
    digests = [[r.folder.metrics(number)["policy_digest"] for number in range(3)] for r in (whole, resumed)]
    assert digests[0] == digests[1] and len(set(digests[0])) == 3
    checkpoints = [whole.folder.round(number) / "checkpoint" for number in range(3)]
    assert [Policy.load(folder).digest() for folder in checkpoints] == digests[0]
    bases = [json.loads((folder / "base.json").read_text())["name"] for folder in checkpoints]
    assert bases == ["base", "../../00/checkpoint/base", "../../00/checkpoint/base"]
    assert not list((tmp_path / "whole" / "rounds" / "02").rglob("model.safetensors"))


@pytest.mark.parametrize(
    ("stop", "number", "name"),
    [((1, "valid"), 1, "trajectories"), ((2, "explore"), 0, "trajectories"), ((2, "test"), 2, "valid")],
)
def test_a_file_that_lost_episodes_is_refused(
    tiny_policy: Any, tmp_path: Path, stop: Any, number: int, name: str
) -> None:
    """Cut in a line or between two, it is named; without it the run ends as if nothing had happened."""
    interrupt(tmp_path, tiny_policy, SMALL, stop)
    run = evolution(tmp_path, tiny_policy, SMALL)
    path = run.folder.round(number) / f"{name}.jsonl"
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    (run.folder.round(number) / "metrics.json").unlink(missing_ok=name == "trajectories")
    for left in (b"".join(lines[:-1]), data[: len(data) // 2]):
        path.write_bytes(left)
        with pytest.raises(RunError, match=rf"{name}\.jsonl is damaged \(holds \d of \d episodes\); delete it"):
            evolution(tmp_path, tiny_policy, SMALL).run()
    path.unlink() if number else path.write_bytes(data)
    run.run()
    assert path.read_bytes() == data


@pytest.mark.parametrize("trainer", [Nudge, Player])
def test_hard_tasks_are_drawn_again_and_an_interrupted_run_draws_the_same(
    tiny_policy: Any, tmp_path: Path, trainer: Any
) -> None:
    """Bit for bit; some of a round's tasks were explored before, whoever plays them."""
    config = replace(SMALL, explore_order="hard", test_tasks=0, valid_tasks=1, seed=1)

    def explored(run: Evolution) -> list[bytes]:
        return [(run.folder.round(r) / "trajectories.jsonl").read_bytes() for r in (1, 2)]

    whole = evolution(tmp_path / "whole", tiny_policy, config, trainer=trainer())
    whole.run()
    stop = (2, "explore" if trainer is Nudge else "improve")
    interrupt(tmp_path / "cut", tiny_policy, config, stop, trainer=trainer())
    resumed = evolution(tmp_path / "cut", tiny_policy, config, trainer=trainer())
    resumed.run()
    assert explored(resumed) == explored(whole)
    first, second = ({t.task_id for t in store.read(whole.folder.round(r) / "trajectories.jsonl")} for r in (1, 2))
    assert len(second) == len(first) and first & second


@dataclass
class InTurn:
    """A curriculum that explores one level after the other, whatever the success."""

    def weights(self, levels: Sequence[str], history: Sequence[Mapping[str, Outcomes]]) -> list[float]:
        done = sum(bool(outcomes.episodes) for of_round in history for outcomes in of_round.values())
        return [float(number == done) for number in range(len(levels))]


def test_an_interrupted_run_resumes_with_its_levels_and_horizon(tiny_policy: Any, tmp_path: Path) -> None:
    """Bit-identical; the metrics hold both by round; demonstrations and evaluations keep the world's difficulty."""
    config = replace(SMALL, curriculum=InTurn(), levels=["easy", "hard"], horizon=[2, 4], test_tasks=0, valid_tasks=1)
    whole = evolution(tmp_path / "whole", tiny_policy, config)
    whole.run()
    interrupt(tmp_path / "cut", tiny_policy, config, (2, "explore"))
    resumed = evolution(tmp_path / "cut", tiny_policy, config)
    resumed.run()
    rounds = [list(store.read(resumed.folder.round(r) / "trajectories.jsonl")) for r in range(3)]
    assert [{(t.difficulty, t.provenance.env_kwargs["max_steps"]) for t in played} for played in rounds] == [
        {("medium", 6)}, {("easy", 2)}, {("hard", 4)},
    ]  # fmt: skip
    for number in range(3):
        paths = [run.folder.round(number) / "trajectories.jsonl" for run in (whole, resumed)]
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert list(resumed.folder.metrics(number)["valid"]["by_difficulty"]) == ["medium"]
    found = [resumed.folder.metrics(number).get("curriculum") for number in range(3)]
    assert found[0] is None and [each["horizon"] for each in found[1:] if each] == [2, 4]
    counts = [{name: rate["n"] for name, rate in each["levels"]["shop"].items()} for each in found[1:] if each]
    assert counts == [{"easy": 4, "hard": 0}, {"easy": 0, "hard": 4}]
    with pytest.raises(ConfigError, match=r"levels: shop: .*'hart'"):
        evolution(tmp_path / "other", tiny_policy, replace(config, levels=["hart"])).run()


def test_worlds_are_explored_by_weight(tiny_policy: Any, tmp_path: Path) -> None:
    """And a weight of a world that is not played is refused before anything is."""
    config = replace(SMALL, rounds=1, explore_weights={"shop": 3.0}, test_tasks=0, merge="all")
    run = evolution(tmp_path / "run", tiny_policy, config)
    run = replace(run, envs=[*run.envs, EnvSpec("maze", {"max_steps": 2})])
    run.run()
    played = [t.provenance.env_id for t in store.read(run.folder.round(1) / "trajectories.jsonl")]
    assert sorted(played) == ["AgentMaze-v0"] * 2 + ["AgentShop-v0"] * 6
    alone = evolution(tmp_path / "alone", tiny_policy, replace(config, explore_weights={"maze": 1.0}))
    with pytest.raises(ConfigError, match="no world 'maze'"):
        alone.run()
    assert not (tmp_path / "alone" / "rounds" / "00" / "trajectories.jsonl").exists()


FORKED = replace(SMALL, rounds=1, attempts=2, forks=2, fork_attempts=3, merge="all", test_tasks=0, save_episodes=5)


def test_exploration_goes_on_from_forks(tiny_policy: Any, tmp_path: Path) -> None:
    """From states in the middle of its episodes, bit for bit as without the interruptions; the expert's have none."""
    whole = evolution(tmp_path / "whole", tiny_policy, FORKED)
    whole.run()
    for phase in ("explore", "forks", "valid"):
        interrupt(tmp_path / "cut", tiny_policy, FORKED, (1, phase))
    run = evolution(tmp_path / "cut", tiny_policy, FORKED)
    run.run()
    paths = [each.folder.round(1) / "trajectories.jsonl" for each in (whole, run)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    played = list(store.read(paths[0]))
    done = [sum(not step.trained for step in each.steps) for each in played]
    assert len(played) == 4 * 2 * (1 + 2 * 3) == len({each.id for each in played}) and done[:8] == [0] * 8
    assert all(done[8:]) and all(len(set(done[at : at + 3])) == 1 for at in range(8, len(done), 3))
    assert len(list(store.read(run.folder.round(0) / "trajectories.jsonl"))) == 3
    assert run.folder.metrics(1)["training"]["trajectories"] == 3 + 56


def test_a_file_that_lost_forks_is_refused(tiny_policy: Any, tmp_path: Path) -> None:
    """How many there were is known by the episodes that they went on from."""
    interrupt(tmp_path, tiny_policy, FORKED, (1, "valid"))
    run = evolution(tmp_path, tiny_policy, FORKED)
    path = run.folder.round(1) / "trajectories.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(RunError, match="holds 55 of 56 episodes"):
        run.run()


@pytest.mark.parametrize(("merge", "counts"), [("all", [3, 7, 11]), ("last", [3, 4, 4]), ("initial+last", [3, 7, 7])])
def test_merge_decides_what_a_round_trains_on(tiny_policy: Any, tmp_path: Path, merge: Any, counts: list[int]) -> None:
    """All rounds' data, the last round's, or the expert's and the last's."""
    run = evolution(tmp_path / "run", tiny_policy, replace(SMALL, merge=merge, test_tasks=0))
    run.run()
    assert isinstance(run.trainer, Nudge) and run.trainer.got == counts


def test_a_cloner_makes_agent_v0(tiny_policy: Any, tmp_path: Path) -> None:
    """Of the expert's full successes only, whatever the rounds select; after it the trainer continues with theirs."""
    cloner, config = Nudge(), replace(SMALL, rounds=1, test_tasks=0, expert_tasks=6)
    run = evolution(tmp_path / "run", tiny_policy, config, cloner=cloner)
    run.envs = [EnvSpec("shop", {"max_steps": 4})]  # too few for most tasks
    run.run()
    demos = list(store.read(run.folder.round(0) / "trajectories.jsonl"))
    good = sum(each.success and each.reward == 1 for each in demos)
    assert isinstance(run.trainer, Nudge) and cloner.got == [good] and run.trainer.got == [4] and 0 < good < 6
    assert run.folder.metrics(0)["selection"]["kept"] == good


@pytest.mark.parametrize("has_cloner", [False, True])
def test_demonstrations_are_passed_over_as_often_as_wanted(tiny_policy: Any, tmp_path: Path, has_cloner: bool) -> None:
    """By whoever makes Agent_v0, and not by the rounds' trainings; a trainer without passes refuses the setting."""
    config, few = replace(SMALL, rounds=1, test_tasks=0, merge="all", expert_epochs=3.0), FilteredBC(epochs=1.0)
    trainers: dict[str, Any] = {"trainer": Nudge(), "cloner": few} if has_cloner else {"trainer": few}
    run = evolution(tmp_path / "run", tiny_policy, config, **trainers)
    run.run()
    made, later = (run.folder.metrics(number)["training"] for number in (0, 1))
    assert 0 < made["trajectories"] <= 4 and len(made["loss"]) == 3  # a pass is a step of up to four trajectories
    if not has_cloner:
        assert len(later["loss"]) == (later["trajectories"] + 3) // 4
    with pytest.raises(ConfigError, match="expert_epochs needs a trainer whose settings extend DataSettings"):
        evolution(tmp_path / "nudge", tiny_policy, config).run()
    with pytest.raises(ConfigError, match="expert_epochs must be"):
        replace(config, expert_epochs=0.0)


def test_without_expert_tasks_the_model_is_agent_v0(tiny_policy: Any, tmp_path: Path) -> None:
    """As in a run that continues from a checkpoint: nothing is trained on at first, and the rounds start there."""
    run = evolution(tmp_path / "run", tiny_policy, replace(SMALL, expert_tasks=0, merge="all"))
    run.run()
    assert run.folder.metrics(0)["policy_digest"] == tiny_policy.digest()
    assert run.folder.metrics(0)["training"] is None and run.folder.metrics(0)["valid"]["success"]["n"] == 3
    assert isinstance(run.trainer, Nudge) and run.trainer.got == [4, 8]


def test_a_round_whose_trainer_has_nothing_learns_from_demonstrations(tiny_policy: Any, tmp_path: Path) -> None:
    """By the trainer that made Agent_v0; with `allow_empty` its agent is the last round's and its training is none."""

    class Picky(Nudge):
        def train(self, policy: Policy, trajectories: Sequence[Trajectory], **_: Any) -> TrainReport:
            raise NothingToTrainOnError("no pairs")

    config, cloner = replace(SMALL, rounds=1, test_tasks=0), Nudge()
    taught = evolution(tmp_path / "taught", tiny_policy, config, trainer=Picky(), cloner=cloner)
    taught.run()
    assert cloner.got == [2, 3]  # the fair expert fails once
    note = "no pairs: trained on 3 further demonstrations of the fair expert"
    assert note in taught.folder.metrics(1)["training"]["notes"]
    demonstrations = list(store.read(taught.folder.round(1) / "demonstrations.jsonl"))
    first = list(store.read(taught.folder.round(0) / "trajectories.jsonl"))
    assert len({t.task_id for t in demonstrations + first}) == 6 and {t.split for t in demonstrations} == {"train"}
    assert not list((taught.folder.round(1)).glob("parts"))
    config = replace(config, allow_empty=True)
    with pytest.raises(NothingToTrainOnError, match="no pairs"):
        evolution(tmp_path / "v0", tiny_policy, config, trainer=Picky()).run()
    run = evolution(tmp_path / "goes_on", tiny_policy, config, trainer=Picky(), cloner=Nudge())
    run.run()
    assert run.folder.metrics(1)["training"] is None
    assert run.folder.metrics(1)["policy_digest"] == run.folder.metrics(0)["policy_digest"]


@dataclass
class Watchful(Nudge):
    """One that has bounds of its own, and may have noted a collapse itself."""

    max_repeated: float = 1.0
    min_entropy: float = 0.0
    notes: tuple[str, ...] = ()

    def train(self, policy: Policy, trajectories: Sequence[Trajectory], **_: Any) -> TrainReport:
        return replace(super().train(policy, trajectories), notes=self.notes)


@pytest.mark.parametrize(
    ("temperature", "trainer", "noted"),
    [
        (1.0, Nudge(), []),
        (0.01, Nudge(), ["collapse: entropy", "collapse: "]),  # it repeats itself, too
        (0.01, Watchful(), []),
        (0.01, Watchful(min_entropy=9.0, notes=("aside",)), ["aside", "collapse: entropy"]),
        (0.01, Watchful(min_entropy=9.0, notes=("collapse, said already",)), ["collapse, said already"]),
    ],
)
def test_a_collapse_is_noted_with_the_round_that_shows_it(
    tiny_policy: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    temperature: float,
    trainer: Any,
    noted: list[str],
) -> None:
    """Of any trainer, by what the round's agent said, and warned of; not again where the trainer did."""
    config = replace(SMALL, rounds=1, temperature=temperature, test_tasks=0)
    run = evolution(tmp_path, tiny_policy, config, trainer=trainer, cloner=Nudge())
    run.run()
    metrics, found = run.folder.metrics(1), [each for each in caplog.messages if "collapse" in each]
    notes = [note for note in metrics["training"]["notes"] if "were cut at max_new_tokens" not in note]
    assert [note[: len(said)] for note, said in zip(notes, noted, strict=True)] == noted
    assert len(found) == sum(said.startswith("collapse: ") for said in noted) and all(
        each.startswith("round 1: ") for each in found
    )
    explored = metrics["explored"]
    assert (explored["entropy"] < 0.001) == (temperature < 1) and 0 <= explored["repeated"] <= 1
    assert "entropy" not in run.folder.metrics(0)["explored"], "an expert has none"


def test_restart_decides_where_training_starts(tiny_policy: Any, tmp_path: Path) -> None:
    """From the base every round moves the weight by its own data; from the previous agent the moves add up."""
    moved = {}
    for restart in ("base", "previous"):
        config = replace(SMALL, merge="last", restart=restart, test_tasks=0)
        run = evolution(tmp_path / restart, tiny_policy, config)
        run.run()
        weight = Policy.load(run.folder.round(2) / "checkpoint").model.model.norm.weight[0].item()
        moved[restart] = weight - tiny_policy.model.model.norm.weight[0].item()
    assert moved["base"] == pytest.approx(0.04, abs=1e-5) and moved["previous"] == pytest.approx(0.11, abs=1e-5)


def test_a_round_that_selects_nothing_learns_from_demonstrations(tiny_policy: Any, tmp_path: Path) -> None:
    """Without demonstrations it is an error that says what to change; with `allow_empty` the last agent stays."""
    strict = replace(SMALL, select=SelectConfig(success_only=True), test_tasks=0)
    taught = evolution(tmp_path / "a", tiny_policy, strict)
    taught.run()
    assert isinstance(taught.trainer, Nudge) and taught.trainer.got == [2, 3, 3]  # the fair expert fails once
    notes = [taught.folder.metrics(number)["training"]["notes"] for number in (0, 1, 2)]
    said = ["no trajectory was selected: trained on 3 " in " ".join(texts) for texts in notes]
    assert said == [False, True, True]
    with pytest.raises(NothingToTrainOnError, match=r"round 1: no trajectory was selected .*try .*expert_tasks"):
        evolution(tmp_path / "none", tiny_policy, replace(strict, expert_tasks=0)).run()
    run = evolution(tmp_path / "b", tiny_policy, replace(strict, allow_empty=True))
    run.run()
    assert run.folder.metrics(1)["training"] is None
    assert run.folder.metrics(1)["policy_digest"] == run.folder.metrics(0)["policy_digest"]


def test_a_reward_is_what_rounds_select_and_learn_from(tiny_policy: Any, tmp_path: Path) -> None:
    """In this round's episodes and in merged ones of earlier rounds; demonstrations keep the world's rewards.

    What is stored has the world's, and the parts' means are among the training's metrics.
    """
    got = list[list[Trajectory]]()

    class Keeps(Nudge):
        def train(self, policy: Policy, trajectories: Sequence[Trajectory], **given: Any) -> TrainReport:
            got.append(list(trajectories))
            return super().train(policy, trajectories, **given)

    config = replace(SMALL, test_tasks=0, merge="all", reward="10*step", reward_kwargs={"beta": 1.0, "cap": 3})
    run = evolution(tmp_path / "run", tiny_policy, config, trainer=Keeps())
    run.run()
    stored = [list(store.read(run.folder.round(number) / "trajectories.jsonl")) for number in range(3)]
    expected = [[10.0 * t.success + 10 * min(sum(s.valid for s in t.steps), 3) for t in played] for played in stored]
    assert [t.reward for t in got[0]] == [t.reward for t in stored[0]]
    assert [t.reward for t in got[2]] == [*(t.reward for t in stored[0]), *expected[1], *expected[2]]
    metrics = run.folder.metrics(1)["training"]["metrics"]
    assert metrics["rewards/step/steps/mean"] + metrics["rewards/step/accuracy/mean"] == pytest.approx(
        sum(expected[1]) / len(expected[1])
    )
    assert not any("step/steps" in step.reward_parts for t in stored[1] for step in t.steps)
    strict = replace(config, rounds=1, merge="last", select=replace(config.select, threshold=1e6))
    with pytest.raises(NothingToTrainOnError, match="no trajectory was selected"):
        evolution(tmp_path / "strict", tiny_policy, replace(strict, expert_tasks=0)).run()


def test_a_reward_model_is_the_reward_of_a_trainer_that_plays_itself(tiny_policy: Any, tmp_path: Path) -> None:
    """It gets the scores, after each last step; what is stored, and what is reported, has the world's rewards."""
    from torch import nn

    from agentgym_py.rewards.reward_model import Member, RewardModel

    heads = nn.Linear(tiny_policy.model.config.hidden_size, 1)
    RewardModel([Member(tiny_policy, heads)], {"reward": 1.0}).save(tmp_path / "judge")
    got = list[Trajectory]()

    class Keeps(Player):
        def improve(self, policy: Policy, rollouts: Rollouts, **_: Any) -> TrainReport:
            got.extend(rollouts.groups(1, rollouts.remaining)[0])
            return TrainReport(len(rollouts.episodes), {}, 0, 0, 0.0)

    config = replace(SMALL, rounds=1, test_tasks=0, reward_model=str(tmp_path / "judge"))
    run = evolution(tmp_path / "run", tiny_policy, config, trainer=Keeps())
    run.run()
    stored = list(store.read(run.folder.round(1) / "trajectories.jsonl"))
    expected = RewardModel.load(tmp_path / "judge").score(stored).tolist()
    assert [each.reward for each in got] == pytest.approx(expected, abs=1e-5) and len(set(expected)) > 1
    assert [[step.reward for step in each.steps] for each in got] == [
        [0.0] * (len(each.steps) - 1) + [each.reward] for each in got
    ]
    assert [each.reward for each in stored] != [each.reward for each in got]
    with pytest.raises(ConfigError, match="reward_model needs an on-policy trainer"):
        evolution(tmp_path / "other", tiny_policy, config).run()
    with pytest.raises(ConfigError, match="reward_model needs a trainer that learns from returns"):
        evolution(tmp_path / "deaf", tiny_policy, config, trainer=R3(alpha=0.0)).run()
    with pytest.raises(ConfigError, match=r"needs a reward with the name reward_model \(it is 'success'\)"):
        evolution(tmp_path / "other", tiny_policy, replace(config, reward="success"), trainer=Keeps()).run()
    text, file = '"max_position_embeddings": ', tmp_path / "judge" / "member_0" / "config.json"
    file.write_text(file.read_text().replace(f"{text}{tiny_policy.max_length}", f"{text}24"))
    with pytest.raises(ConfigError, match="judge reads 24 tokens at most, the policy"):
        evolution(tmp_path / "short", tiny_policy, config, trainer=Keeps()).run()


def test_patience_stops_early(tiny_policy: Any, tmp_path: Path) -> None:
    """Without a better round for `patience` rounds the run ends; the best of equals is the earliest."""
    run = evolution(tmp_path / "run", tiny_policy, replace(SMALL, rounds=5, patience=1, test_tasks=0))
    assert run.run()["last"] == 1
    assert isinstance(run.reporter, Listener) and run.reporter.rounds == [0, 1]


@dataclass
class Breaks(Nudge):
    """A trainer that goes wrong after a good step, where it got no expert's trajectories."""

    def train(self, policy: Policy, trajectories: Sequence[Trajectory], **_: Any) -> TrainReport:
        report = Nudge.train(self, policy, trajectories)
        if trajectories[0].provenance.agent != "expert":
            raise TrainingError("loss nan at step 2")
        return report


@dataclass
class BreaksPlaying:
    """The same of one that plays itself."""

    def improve(self, policy: Policy, rollouts: Rollouts, **_: Any) -> TrainReport:
        Breaks().train(policy, rollouts.groups(1, 2)[0])
        raise AssertionError


@pytest.mark.parametrize("trainer", [Breaks(), BreaksPlaying()], ids=["stored", "plays"])
def test_a_training_that_goes_wrong_leaves_what_was_last_good(tiny_policy: Any, tmp_path: Path, trainer: Any) -> None:
    """The weights before the step that failed and those of the round before are kept, and the error names both."""
    run = evolution(tmp_path / "run", tiny_policy, replace(SMALL, test_tasks=0), trainer=trainer)
    with pytest.raises(TrainingError) as raised:
        run.run()
    good, before = run.folder.round(1) / "last_good", run.folder.round(0) / "checkpoint"
    assert str(raised.value) == (
        f"round 1: loss nan at step 2; the last good weights: {good}; of the round before: {before}"
    )
    moved = Policy.load(good).model.model.norm.weight - Policy.load(before).model.model.norm.weight
    assert moved[0].item() > 0.009 and not run.folder.done(1)


def test_wrong_settings_are_refused() -> None:
    """Counts that cannot be meant raise at once and name the setting."""
    wrong: dict[str, Any] = {
        "expert_tasks": -1,
        "attempts": 0,
        "slots": 0,
        "rounds": -1,
        "forks": -1,
        "fork_attempts": 0,
    }
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            EvolveConfig(**{name: value})


def test_a_trainer_that_plays_itself_gets_the_rounds_episodes(tiny_policy: Any, tmp_path: Path) -> None:
    """As many as another's round explores, on new tasks, from the last round's agent; they are stored, with who played.

    Interrupted and taken up again it ends as if nothing had happened.
    """
    config = replace(SMALL, attempts=2)
    for stop in ((1, "improve"), (2, "valid")):
        interrupt(tmp_path, tiny_policy, config, stop, trainer=Player())
    run = evolution(tmp_path, tiny_policy, config, trainer=Player())
    result = run.run()
    assert result["last"] == 2
    rounds = [list(store.read(run.folder.round(r) / "trajectories.jsonl")) for r in range(3)]
    assert [len(played) for played in rounds] == [3, 8, 8]
    assert not {t.task_id for t in rounds[1]} & {t.task_id for t in rounds[2]}
    for number in (1, 2):
        digests = list(dict.fromkeys(t.provenance.policy_digest for t in rounds[number]))
        metrics = run.folder.metrics(number)
        assert digests == [run.folder.metrics(number - 1)["policy_digest"], metrics["policy_digest"]]
        assert metrics["training"]["trajectories"] == 8 == metrics["selection"]["kept"]


@pytest.mark.parametrize("ignored", [{"merge": "all"}, {"restart": "base"}, {"temperature": 0.0}, {"forks": 1}])
def test_settings_that_a_trainer_that_plays_itself_would_ignore_are_refused(
    tiny_policy: Any, tmp_path: Path, ignored: dict[str, Any]
) -> None:
    """Before anything is played; for another trainer they are in order."""
    with pytest.raises(ConfigError, match=next(iter(ignored))):
        evolution(tmp_path, tiny_policy, replace(SMALL, **ignored), trainer=Player()).run()
    assert not (tmp_path / "rounds").exists() or not any((tmp_path / "rounds").iterdir())
    require_compatible(replace(SMALL, **ignored), Nudge())


def test_all_reasons_against_a_trainer_stand_in_one_message() -> None:
    """Also those of the trainer itself, so that one correction is enough."""
    config = replace(SMALL, explore_tasks=2, attempts=2, merge="all", forks=1, temperature=0.0)
    with pytest.raises(ConfigError) as error:
        require_compatible(config, R3(critic_warmup=2, tasks_per_iteration=2))
    reasons = ("set merge=last", "forks needs", "temperature must be above 0", "critic_warmup 2 times")
    assert all(reason in str(error.value) for reason in reasons)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            {"critic_warmup": 2, "tasks_per_iteration": 2},
            "critic_warmup 2 times tasks_per_iteration 2 leaves the policy none of 4",
        ),
        ({"prm": "nowhere", "tasks_per_iteration": 1}, "prm nowhere is not a process reward model"),
        ({"prm_labels": "monte_carlo", "tasks_per_iteration": 1}, "prm_labels monte_carlo"),
    ],
)
def test_what_a_round_cannot_be_is_refused_before_anything_runs(
    tiny_policy: Any, tmp_path: Path, setting: dict[str, Any], said: str
) -> None:
    """By the trainer's own `check_round`, for all worlds' episodes; without rounds it does not matter."""
    trainer, config = R3(**setting), replace(SMALL, explore_tasks=2, attempts=2, rounds=1)
    with pytest.raises(ConfigError, match=said):
        evolution(tmp_path, tiny_policy, config, trainer=trainer).run()
    assert not (tmp_path / "rounds").exists() or not any((tmp_path / "rounds").iterdir())
    require_compatible(replace(config, rounds=0), trainer)


def test_a_round_of_episodes_that_teach_nothing_learns_from_demonstrations(tiny_policy: Any, tmp_path: Path) -> None:
    """Of an on-policy trainer, too: its episodes are stored, and its cloner learns from demonstrations if there are."""
    taught = evolution(tmp_path / "taught", tiny_policy, replace(SMALL, rounds=1), trainer=Player(nothing=True))
    taught.run()
    assert taught.folder.metrics(1)["selection"]["line"] == "kept 0 of 2; dropped: 2 with nothing to learn from"
    assert taught.folder.metrics(1)["training"]["trajectories"] == 3
    assert taught.folder.metrics(1)["policy_digest"] != taught.folder.metrics(0)["policy_digest"]
    without = replace(SMALL, expert_tasks=0)
    refused = evolution(tmp_path / "refused", tiny_policy, without, trainer=Player(nothing=True))
    with pytest.raises(NothingToTrainOnError, match=r"round 1: player: nothing .*01/trajectories.jsonl.*allow_empty"):
        refused.run()
    assert len(list(store.read(refused.folder.round(1) / "trajectories.jsonl"))) == 2
    config = replace(SMALL, allow_empty=True)
    allowed = evolution(tmp_path / "allowed", tiny_policy, config, trainer=Player(nothing=True))
    assert allowed.run()["last"] == 2
    metrics = [allowed.folder.metrics(number) for number in range(3)]
    assert metrics[1]["selection"]["line"] == "kept 0 of 2; dropped: 2 with nothing to learn from"
    assert metrics[1]["training"] is None and len({each["policy_digest"] for each in metrics}) == 1


def test_a_round_whose_checkpoint_lost_its_training_is_an_error(
    tiny_policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights before the training, saved in its place, are refused; a good round reports what it changed."""
    kept = evolution(tmp_path / "kept", tiny_policy, replace(SMALL, rounds=0, valid_tasks=1, test_tasks=0))
    kept.run()
    metrics = kept.folder.metrics(0)["training"]["metrics"]
    assert metrics["logprob_saved"] == metrics["logprob_trained"] != metrics["logprob_before"]
    save = Policy.save
    monkeypatch.setattr(Policy, "save", lambda policy, folder: save(tiny_policy, folder))
    lost = evolution(tmp_path / "lost", tiny_policy, replace(SMALL, rounds=0, valid_tasks=1, test_tasks=0))
    with pytest.raises(TrainingError, match="checkpoint does not hold what was trained"):
        lost.run()
    assert not lost.folder.is_trained(0)
