from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import agentgym_py as ag
from agentgym_py.api.arguments import command_words
from agentgym_py.certificate.certificate import CertificateSettings
from agentgym_py.cli import run_command
from agentgym_py.errors import AgentGymError, ConfigError, NothingToTrainOnError, UnknownNameError
from agentgym_py.training.trainer import TrainReport
from agentgym_py.trajectory import store


def test_make_gives_a_world_that_forks() -> None:
    """Without wrappers: snapshot, restore and expert are at hand."""
    env = ag.make("AgentMaze-v0", difficulty="easy")
    assert isinstance(env, ag.TextEnv)
    env.reset(seed=3)
    here, plan = env.snapshot(), env.expert()
    for action in plan:
        *_, info = env.step(action)
    assert info["success"]
    env.restore(here)
    assert env.expert() == plan
    with pytest.raises(UnknownNameError, match="Did you mean 'maze'"):
        ag.make("mazze")


def test_collect_takes_agents_by_name_and_by_object() -> None:
    """The same episodes either way, attempts of a task side by side."""
    by_name = ag.collect("maze", tasks=3, attempts=2)
    by_object = ag.collect(ag.EnvSpec("maze"), ag.ExpertAgent(), tasks=range(3), attempts=2)
    assert by_name == by_object and len(by_name) == 6 and all(each.success for each in by_name)
    assert by_name[0].task_id == by_name[1].task_id != by_name[2].task_id
    assert [each.success for each in ag.collect("maze", "random", tasks=2, play=ag.PlayConfig(slots=1))] == [False] * 2


def test_a_printed_trajectory_is_what_was_said() -> None:
    """Observations, replies and the end, a control character visible; a report of a training is a line."""
    episode = ag.collect("maze", tasks=1)[0]
    lines = str(episode).split("\n")
    assert lines[0] == episode.steps[0].observation.split("\n")[0]
    assert lines[-1] == f"{episode.task_id}: success, reward 1"
    said = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
    assert "\n".join(said) == "\n".join(step.reply for step in episode.steps)
    odd = replace(episode.steps[0], reply="one\n\ntwo\rthree")
    odd_lines = str(replace(episode, steps=(odd,), success=False, error="\x1b[2J")).split("\n")
    assert "> one\n> \n> two\\x0dthree" in "\n".join(odd_lines)
    assert odd_lines[-1] == f"{episode.task_id}: no success (\\x1b[2J), reward 1"
    report = TrainReport(25, {}, 10, 5, 9.84, loss=[3.49, 2.8], history=[{"loss": 3.49}, {"loss": 2.8}], notes=["So."])
    assert str(report) == "25 trajectories, loss 3.49 to 2.8, 9.8 s\nSo."
    assert str(replace(report, dropped={"no success": 3}, loss=[])) == "25 trajectories, 3 dropped, 9.8 s\nSo."


def test_the_memory_of_a_policy_is_bounded_from_python(tiny_policy: ag.Policy) -> None:
    """`kv_cache_gib` bounds its cache, `max_context` its training; both are refused where nothing would read them."""
    for play in (ag.collect, ag.evaluate):
        with pytest.raises(ConfigError, match="raise kv_cache_gib"):
            play(env="shop", agent=tiny_policy, tasks=1, kv_cache_gib=1e-6)
        with pytest.raises(ConfigError, match="kv_cache_gib needs a policy"):
            play(env="shop", agent="random", tasks=1, kv_cache_gib=1.0)
    demos = ag.collect("shop", tasks=1)
    with pytest.raises(NothingToTrainOnError, match="8"):
        ag.train("filtered_bc", "tiny-random", demos, max_context=8)
    with pytest.raises(ConfigError, match="max_context needs the name of a policy"):
        ag.train("filtered_bc", tiny_policy, demos, max_context=8)


def test_a_policy_is_trained_measured_and_compared(tiny_policy: ag.Policy, fresh: object) -> None:
    """Collect, train, evaluate, compare: what the README's block does."""
    pytest.importorskip("torch")
    demos = ag.collect("shop", tasks=4)
    policy, report = ag.train("filtered_bc", fresh(tiny_policy), demos, epochs=1.0, batch_size=2)  # type: ignore[operator]
    assert report.trajectories == 4 and policy.digest() != tiny_policy.digest()
    assert policy.name == "copy+filtered_bc"
    shop = ag.EnvSpec("shop", {"max_steps": 2})
    before, after = (ag.evaluate(each, shop, tasks=3, max_new_tokens=4) for each in (tiny_policy, policy))
    longer = ag.evaluate(tiny_policy, ag.EnvSpec("todo", {"max_steps": 1}), tasks=1)
    assert longer.manifest["agent"]["sampling"]["max_new_tokens"] == 128, "as in evolve"
    assert before.evaluation.success.n == 3 and len(after.trajectories) == 3
    assert after.name == after.manifest["agent"]["name"] == policy.name
    assert str(before) == f"{before.name}: success 0.0 % [0, 56] (only 3 tasks), 3 episodes"
    compared = ag.compare(before=before, after=after)
    assert "| before |" in str(compared)
    assert compared.tasks == 3 and [each.name for each in compared.entrants] == ["before", "after"]
    with pytest.raises(ConfigError, match="at least two evaluations"):
        ag.compare(before=before)
    other = ag.evaluate("random", "maze", tasks=2)
    chosen = ag.evaluate("random", "maze", tasks=[4, 1])
    assert [each.task_id for each in chosen.trajectories] == ["maze/test/medium/4", "maze/test/medium/1"]
    with pytest.raises(ConfigError, match="tasks names no task"):
        ag.evaluate("random", "maze", tasks=[])
    with pytest.raises(ConfigError, match=r"tasks has 3 more than once; .* set attempts"):
        ag.evaluate("random", "maze", tasks=[3, 1, 3])
    with pytest.raises(ConfigError, match="tasks has 2 more than once"):
        ag.collect("maze", tasks=[2, 2])
    with pytest.raises(ConfigError, match="env has maze twice with the same arguments"):
        ag.evaluate("random", ["maze", ag.EnvSpec("maze")], tasks=1)
    with pytest.raises(ConfigError, match="first must be a Result or a folder of agentgym eval --out, not 1"):
        ag.compare(first=1, second=2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot be compared"):
        ag.compare(before=before, other=other)


def test_a_world_is_certified_as_by_the_command(tmp_path: Path) -> None:
    """A name, a file or a spec; some checks make an incomplete certificate, which a folder keeps with its badge."""
    done = list[str]()
    maze = ag.EnvSpec("maze", {"difficulty": "easy"})
    certificate = ag.certify(maze, ["solvable", "card"], episodes=4, progress=lambda result: done.append(result.check))
    assert certificate.verdict == "incomplete" and certificate.report.ok and done == ["solvable", "card"]
    assert certificate.report.settings == CertificateSettings(episodes=4)
    world = Path(__file__).parents[1] / "examples" / "my_world.py"
    ag.certify(str(world), ["card"], out=tmp_path / "made")
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert names == {"AgentGuess-v0.incomplete.json", "AgentGuess-v0.incomplete.svg"}
    with pytest.raises(ConfigError, match=r"no argument 'episods'\. Did you mean 'episodes'\?"):
        ag.certify("maze", ["card"], episods=4)
    with pytest.raises(UnknownNameError, match="Did you mean 'learnable'"):
        ag.certify("maze", ["learnabel"])
    with pytest.raises(ConfigError, match="checks must be a list of names"):
        ag.certify("maze", "card")
    with pytest.raises(ConfigError, match="out must be a folder"):
        ag.certify("maze", ["card"], out=world)


def test_a_trainer_is_proven_as_by_the_command() -> None:
    """A name with settings, a class or an instance; a class takes no settings beside it."""
    pytest.importorskip("torch")
    from agentgym_trainers.filtered_bc import FilteredBC

    done = list[str]()
    proof = ag.prove("filtered_bc", ["mask"], epochs=1.0, progress=lambda result: done.append(result.check))
    assert proof.verdict == "incomplete" and not proof.failed and proof.trainer == "filtered_bc" and done == ["mask"]
    trainers: list[Any] = [FilteredBC, FilteredBC(epochs=1.0)]
    for trainer in trainers:
        assert ag.prove(trainer, ["tokens"]).trainer.endswith("FilteredBC")
    with pytest.raises(ConfigError, match="no argument 'epocs'"):
        ag.prove("filtered_bc", ["mask"], epocs=1.0)
    with pytest.raises(ConfigError, match="FilteredBC is a class: give an instance with these settings"):
        ag.prove(FilteredBC, ["mask"], epochs=1.0)
    with pytest.raises(UnknownNameError, match="Did you mean 'mask'"):
        ag.prove("filtered_bc", ["msk"])
    with pytest.raises(ConfigError, match="checks must be a list of names"):
        ag.prove("filtered_bc", "mask")


def test_an_evaluation_stops_when_it_is_decided() -> None:
    """After a block of 16 tasks; the comparison is that of the command, and plain `compare` refuses the evaluation."""
    maze = ag.EnvSpec("maze", {"difficulty": "easy"})
    random = ag.evaluate("random", maze, tasks=64)
    expert = ag.evaluate("expert", maze, tasks=64, until_decided=random)
    assert len(expert.trajectories) == 16
    found = ag.compare_anytime(expert=expert, random=random)
    assert found.result.verdict == "first" and found.first == "expert" and found.result.difference.n == 16
    assert "expert is better" in str(found)
    with pytest.raises(ConfigError, match="expert stopped by what it saw"):
        ag.compare(expert=expert, random=random)
    with pytest.raises(ConfigError, match="has played 64 tasks, fewer than tasks=99: give at most tasks=64"):
        ag.evaluate("expert", maze, tasks=99, until_decided=random)
    with pytest.raises(ConfigError, match="margin and power need until_decided"):
        ag.evaluate("expert", maze, tasks=4, margin=0.1)
    with pytest.raises(ConfigError, match="takes two evaluations, got 1"):
        ag.compare_anytime(expert=expert)
    with pytest.raises(ConfigError, match="power needs a margin"):
        ag.compare_anytime(expert=expert, random=random, power=0.8)


def test_functions_are_no_modules() -> None:
    """A package of a function's name would take its place as soon as something imports it."""
    modules = {info.name for info in pkgutil.iter_modules(ag.__path__)}
    assert {name for name in ag.__all__ if not name.startswith("_")} & modules == set()


def test_compared_folders_have_the_names_that_were_given(tmp_path: Path) -> None:
    """As results have, also one by one."""
    from agentgym_py.cli import main

    for name in ("expert", "random"):
        assert not main(["eval", "--env", "maze", "--tasks", "3", "--agent", name, "--out", str(tmp_path / name)])
    compared = ag.compare(one=tmp_path / "expert", two=str(tmp_path / "random"))
    assert [entrant.name for entrant in compared.entrants] == ["one", "two"]
    assert str(ag.compare_anytime(one=tmp_path / "expert", two=tmp_path / "random")).startswith("one − two, looked at")


def test_wrong_trainers_are_refused(tiny_policy: ag.Policy) -> None:
    """One that plays itself, settings beside an object, a name that is none."""
    with pytest.raises(ConfigError, match="is on-policy"):
        ag.train("grpo", tiny_policy, [])
    with pytest.raises(UnknownNameError, match="filtered_bc"):
        ag.train("filtered_cb", tiny_policy, [])
    with pytest.raises(ConfigError, match=r"no argument 'epocs'\. Did you mean 'epochs'\?"):
        ag.train("filtered_bc", tiny_policy, [], epocs=1.0)
    with pytest.raises(ConfigError, match="no argument 'bta'"):
        ag.train("dpo", tiny_policy, [], bta=0.1)


def test_training_selects_what_the_command_selects(tiny_policy: ag.Policy, fresh: Any, tmp_path: Path) -> None:
    """filtered_bc learns from successes, unless `select` says otherwise; a reward model needs a folder."""
    pytest.importorskip("torch")
    demos = ag.collect("shop", tasks=2)
    demos[0] = replace(demos[0], success=False, reward=0.75)
    settings: dict[str, Any] = {"epochs": 1.0, "batch_size": 2}
    trained, report = ag.train("filtered_bc", fresh(tiny_policy), demos, output_dir=tmp_path / "bc", **settings)
    assert report.trajectories == 1 and trained.name == str(tmp_path / "bc")
    chosen = {"success_only": False, "threshold": 0.5}
    assert ag.train("filtered_bc", fresh(tiny_policy), demos, select=chosen, **settings)[1].trajectories == 2
    with pytest.raises(NothingToTrainOnError, match=r"select\.success_only=False"):
        ag.train("filtered_bc", tiny_policy, demos[:1])
    with pytest.raises(ConfigError, match="no argument 'treshold'"):
        ag.train("filtered_bc", tiny_policy, demos, select={"treshold": 1})
    with pytest.raises(ConfigError, match="output_dir is needed, because RewardModelling writes a reward_model there"):
        ag.train("reward_model", tiny_policy, demos)


WRONG: list[tuple[str, Callable[[], object]]] = [
    ("env must be a name, not 5", lambda: ag.make(5)),  # type: ignore[arg-type]
    ("env must be a name, an EnvSpec or a list", lambda: ag.collect([])),
    ("env must be a name, an EnvSpec or a list", lambda: ag.collect(ag.make("maze"))),  # type: ignore[arg-type]
    (r"the class ExpertAgent; pass an instance: ExpertAgent\(\)", lambda: ag.collect("maze", ag.ExpertAgent)),  # type: ignore[arg-type]
    ("object is not an agent: it lacks name, sampling", lambda: ag.collect("maze", object())),  # type: ignore[arg-type]
    ("tasks must be a whole number", lambda: ag.collect("maze", tasks=2.5)),  # type: ignore[arg-type]
    ("tasks must be a number of tasks, or their numbers", lambda: ag.collect("maze", tasks=["a"])),  # type: ignore[list-item]
    ("tasks must be a whole number", lambda: ag.evaluate("random", "maze", tasks="2")),  # type: ignore[arg-type]
    ("play must be a PlayConfig", lambda: ag.collect("maze", play={"slots": 3})),  # type: ignore[arg-type]
    ("slots must be a whole number", lambda: ag.PlayConfig(slots="a")),  # type: ignore[arg-type]
    ("seed", lambda: ag.PlayConfig(seed=-1)),
    ("executor must be an executor", lambda: ag.PlayConfig(executor="thred")),  # type: ignore[arg-type]
    ("trainer must be a trainer's name", lambda: ag.train(None, "tiny", [])),  # type: ignore[arg-type]
    ("policy must be a name", lambda: ag.train("filtered_bc", None, ag.collect("maze", tasks=1))),  # type: ignore[arg-type]
    ("trajectories must be a list", lambda: ag.train("dpo", "tiny", ag.collect("maze", tasks=1)[0])),  # type: ignore[arg-type]
]


EVOLVE: list[dict[str, Any]] = [
    {"rounds": -1}, {"rounds": "many"}, {"rouns": 1}, {"max_context": -400}, {"max_context": 8}, {"threads": 0},
    {"trainer": {"name": "filtered_bc", "epochs": -1}}, {"select": {"top_ratio": 7}}, {"preset": "smok"},
    {"env_kwargs": {"max_steps": 0}}, {"engine": "server"}, {"server_kind": "sglang"}, {"base_url": "http://localhost"},
    {"kv_cache_gib": -1}, {"env_kwargs": {"games": 3}}, {"track": "paper"}, {"reward_model": "nowhere"},
    {"env": "GUESS"}, {"model": "nowhere"}, {"resume": "nowhere", "rounds": 2},
    {"curriculum": {"name": "difficulty", "threshold": 2}}, {"curriculum": {"threshold": 0.5}}, {"horizon": [5, 6]},
]  # fmt: skip


@pytest.mark.parametrize("options", EVOLVE, ids=str)
def test_errors_of_evolve_name_parameters(options: dict[str, Any], tmp_path: Path) -> None:
    """Not options of the command line; where the environment is missing, neither."""
    with pytest.raises(AgentGymError) as caught:
        ag.evolve(options.pop("env", "maze"), out=tmp_path / "run", **options)
    assert "--" not in str(caught.value).replace("--help-all", "")
    with pytest.raises(UnknownNameError) as unknown:
        ag.make("no such world")
    assert "--" not in str(unknown.value)


@pytest.mark.parametrize(("message", "call"), WRONG, ids=[message for message, _ in WRONG])
def test_wrong_types_are_named(message: str, call: Callable[[], object]) -> None:
    """One ConfigError says what is expected and what came."""
    pytest.importorskip("torch")
    with pytest.raises(ConfigError, match=message):
        call()


def test_an_agent_that_replies_wrongly_is_named() -> None:
    """Texts in place of replies, and too few of them."""

    class Texts(ag.RandomAgent):
        def act(self, episodes: Any) -> Any:
            return ["look"] * len(episodes)

    class Few(ag.RandomAgent):
        def act(self, episodes: Any) -> Any:
            return super().act(episodes)[1:]

    with pytest.raises(ConfigError, match=r"random.act must return AgentReply or None for each episode, got 'look'"):
        ag.collect("maze", Texts(), tasks=2)
    with pytest.raises(ConfigError, match=r"random.act must return 2 replies, one per episode, got 1"):
        ag.collect("maze", Few(), tasks=2)


def test_numbers_are_one_or_more(tmp_path: Path) -> None:
    """A wrong number is an error, not an empty result; a folder may be a path."""
    wrong: list[dict[str, Any]] = [{"tasks": -1}, {"tasks": 0}, {"attempts": 0}]
    for numbers in wrong:
        with pytest.raises(ConfigError, match="must be a whole number, 1 or more, got"):
            ag.collect("maze", **numbers)
        with pytest.raises(ConfigError, match="must be a whole number, 1 or more, got"):
            ag.evaluate("random", "maze", **numbers)
    store.write(tmp_path / "demos.jsonl", ag.collect("maze", tasks=1))
    with pytest.raises(AgentGymError, match="nowhere"):
        ag.train("filtered_bc", tmp_path / "nowhere", tmp_path / "demos.jsonl")


def test_evolve_is_the_commands_run(tmp_path: Path) -> None:
    """The same call returns a finished run at once and extends it; another question is an error."""
    pytest.importorskip("torch")
    options: dict[str, Any] = {
        "model": "tiny-random", "preset": "smoke", "threads": 1, "expert_tasks": 2, "test_tasks": 2, "valid_tasks": 2,
        "explore_tasks": 1, "env_kwargs": {"max_steps": 3}, "trainer": "filtered_bc", "max_new_tokens": 4,
    }  # fmt: skip
    run = tmp_path / "run"
    result = ag.evolve("maze", out=run, rounds=0, **options)
    assert result == ag.evolve("maze", out=run, rounds=0, horizon=[], critic=None, **options)
    assert (run / "report.html").is_file() and result == ag.evolve("maze", out=run)
    assert result == ag.evolve("maze", out=run, rounds=0, **options)
    other_settings: list[tuple[dict[str, Any], str]] = [
        ({"seed": 1}, "seed is 0 in the run of"), ({"trainer": "dpo"}, "trainer.name is 'filtered_bc'"),
        ({"env_kwargs": {"max_steps": 4}}, "env_kwargs.max_steps is 3"),
        ({"model": None}, "model: expected text, got None"), ({"env_kwargs": {"max_steps": None}}, "max_steps is 3"),
        ({"rouns": 1}, r"rouns: no such setting; did you mean rounds\?"),
    ]  # fmt: skip
    for wrong, message in other_settings:
        with pytest.raises(AgentGymError, match=message):
            ag.evolve("maze", out=run, **options | wrong)
    with pytest.raises(ConfigError, match=r"env is .*maze.* in the run of .*, not .*shop"):
        ag.evolve("shop", out=run)
    ag.evolve("maze", out=run, rounds=1, **options)
    assert (run / "rounds" / "01").is_dir()
    with pytest.raises(ConfigError, match="env_kwargs cannot be combined with an EnvSpec"):
        ag.evolve(ag.EnvSpec("maze", {"max_steps": 4}), out=run, **options)
    with pytest.raises(AgentGymError, match="rouns"):
        ag.evolve("maze", out=tmp_path / "other", rouns=1)


def test_none_and_empty_values_replace_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The defaults of a world, a trainer and a config file; an option that takes no null says so."""
    (tmp_path / "run.yaml").write_text("critic: environment\nstep_timeout: 3\nexplore_weights: {household: 3}\n")
    options: dict[str, Any] = {
        "horizon": [], "reward": None, "step_timeout": None, "critic": None, "trainer": {"name": "reverse_curriculum"},
        "env_kwargs": {"rooms": [1, "a"], "none": []}, "config": tmp_path / "run.yaml", "print_config": True,
        "explore_weights": {}, "preset": None,
    }  # fmt: skip
    run_command(["evolve", "--env", "household", *command_words(options)])
    printed = yaml.safe_load(capsys.readouterr().out)
    assert (printed["horizon"], printed["reward"], printed["step_timeout"]) == ([], None, None)
    assert printed["critic"] == {"name": None} and printed["trainer"]["name"] == "reverse_curriculum"
    assert (printed["env_kwargs"], printed["explore_weights"]) == ({"rooms": [1, "a"], "none": []}, {})
    for wrong, message in (({"horizon": None}, "horizon: 'null' is not"), ({"trainer": None}, "No trainer 'null'")):
        with pytest.raises(AgentGymError, match=message):
            ag.evolve("household", out=tmp_path / "run", **wrong)


def test_every_public_name_is_there_and_documented() -> None:
    """`__all__` is what `dir` and `from agentgym_py import *` give; functions and classes say what they are."""
    for name in ag.__all__:
        value = getattr(ag, name)
        assert name in dir(ag) and (isinstance(value, str) or value.__doc__)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        ag.trian  # noqa: B018


def test_modules_do_not_hide_functions() -> None:
    """No room of the package is named as a function of the front door, whatever was imported before."""
    code = (
        "import agentgym_py as ag, pkgutil, importlib;"
        "names = [m.name for m in pkgutil.iter_modules(ag.__path__) if m.name[0] != '_'];"
        "[importlib.import_module(f'agentgym_py.{name}') for name in names];"
        "print(all(callable(getattr(ag, n)) for n in ('make', 'collect', 'train', 'evaluate', 'compare', 'evolve')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_run_in_a_world_of_ones_own_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same call trusts the sources that it names, as the first call did."""
    commands: list[list[str]] = []
    monkeypatch.setattr("agentgym_py.cli.run_command", commands.append)
    monkeypatch.setattr("agentgym_py.cli.evolve_settings.require_same_settings", lambda folder, settings: None)
    (tmp_path / "run.yaml").write_text("rounds: 1\n")
    (tmp_path / "test.json").write_text("{}")
    ag.evolve("my_world.py", out=tmp_path, trainer="my_trainer.py:Mine", rounds=2)
    assert commands == [
        [
            "evolve",
            "--resume",
            str(tmp_path),
            "--trust",
            "my_world.py",
            "--trust",
            "my_trainer.py:Mine",
            "--rounds",
            "2",
        ]
    ]
