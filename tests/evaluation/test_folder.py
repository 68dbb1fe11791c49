"""Evaluation folders and their manifests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.env import EnvSpec
from agentgym_py.errors import RunError
from agentgym_py.evaluation.folder import (
    SAME_EPISODES,
    SAME_QUESTION,
    EvalFolder,
    differences,
    make_manifest,
    read_manifest,
)
from agentgym_py.trajectory import Trajectory, store

SHOP = EnvSpec("shop", {"difficulty": "easy"})


def made(*envs: EnvSpec, tasks: int = 3, **fields: Any) -> dict[str, Any]:
    """The manifest of a small evaluation, as the command line writes it."""
    asked: dict[str, Any] = {"split": "test", "attempts": 1, "prompt": "brief", "seed": 0} | fields
    return make_manifest(RandomAgent(), envs or (SHOP,), tasks=range(tasks), **asked) | {"options": {"tasks": tasks}}


def test_a_manifest_names_what_decides_the_episodes() -> None:
    """Worlds as they are made, their tasks by id, the agent and its sampling; JSON that is read back as it was."""
    found = made(tasks=2)
    (world,) = found["worlds"]
    assert world["tasks"] == ["shop/test/easy/0", "shop/test/easy/1"] and world["kwargs"] == {"difficulty": "easy"}
    assert world["id"] == "AgentShop-v0" and world["max_steps"] == 15 and world["version"] == SHOP.make().version
    assert found["agent"] == {"name": "random", "policy_digest": None, "sampling": {}}
    assert json.loads(json.dumps(found)) == found


def test_what_tool_rules_say_is_a_part_of_an_evaluation() -> None:
    """One that began without their sentence is not resumed; agents with and without tools have the same question."""
    agent = RandomAgent()
    text = make_manifest(agent, [SHOP], "test", range(2), 1, "brief", 0)
    agent.sampling = {"tools": True}
    now = make_manifest(agent, [SHOP], "test", range(2), 1, "brief", 0)
    before = now | {"agent": {**text["agent"], "sampling": agent.sampling}}
    (difference,) = differences(before, now, ("agent", *SAME_QUESTION))
    assert difference.startswith("agent's tool_rules: not given") and not differences(text, now, SAME_QUESTION)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            {"split": "valid"},
            [
                "AgentShop-v0's tasks: 0 in both, of 3 and 3, which begin with shop/test/easy/0 and shop/valid/easy/0",
                "split: ",
            ],
        ),
        ({"prompt": "full"}, ["AgentShop-v0's rules: ", "prompt: brief, not full"]),
        ({"tasks": 5}, ["AgentShop-v0's tasks: 3 in both, of 3 and 5"]),
        ({"seed": 4}, ["seed: 0, not 4"]),
        ({"attempts": 4}, []),
    ],
)
def test_what_matters_is_named(other: dict[str, Any], said: list[str]) -> None:
    """In the order of the manifest, each with both values; how often a task is tried is nobody's question."""
    found = differences(made(), made(**other), SAME_QUESTION)
    assert len(found) == len(said) and all(one.startswith(start) for one, start in zip(found, said, strict=True)), found


def test_a_model_is_known_by_its_digest() -> None:
    """Not by its name, nor by where it lies; agents without one are known by their names."""

    def of(name: str, digest: str | None, model: str) -> dict[str, Any]:
        agent = {"name": name, "policy_digest": digest, "sampling": {"temperature": 0}}
        return made() | {"agent": agent, "options": {"tasks": 3, "model": model}}

    assert differences(of("a", "1", "/a"), of("b", "1", "/b"), SAME_EPISODES) == []
    assert differences(of("a", None, ""), of("b", None, ""), SAME_EPISODES) == ["agent's name: a, not b"]
    assert differences(of("a", "1", "/a"), of("a", "2", "/a"), SAME_EPISODES) == ["agent's policy_digest: 1, not 2"]
    assert differences(of("a", "1", "/a"), of("a", None, "/a"), SAME_EPISODES) == [
        "agent's policy_digest: 1, and not given in the other"
    ]
    hot = of("b", "1", "/b") | {"agent": {"name": "b", "policy_digest": "1", "sampling": {"temperature": 1}}}
    assert len(differences(of("a", "1", "/a"), hot, SAME_EPISODES)) == 1


def test_worlds_that_differ_are_named() -> None:
    """By arguments, by steps, by version, or by who they are."""
    longer = made(EnvSpec("shop", {"difficulty": "easy", "max_steps": 9}))
    said = differences(made(), longer, SAME_QUESTION)
    assert said[:2] == [
        "AgentShop-v0's kwargs.max_steps: not given, and 9 in the other",
        "AgentShop-v0's max_steps: 15, not 9",
    ]
    assert [each.partition(":")[0] for each in said[2:]] == ["AgentShop-v0's first_state"]  # it holds the arguments
    newer = made()
    newer["worlds"][0]["version"] += 1
    assert [each.partition(":")[0] for each in differences(made(), newer, SAME_QUESTION)] == ["AgentShop-v0's version"]
    assert differences(made(), made(EnvSpec("maze")), SAME_QUESTION) == ["worlds: AgentShop-v0, not AgentMaze-v0"]
    assert differences(made(), made(), (*SAME_QUESTION, "agent")) == []
    expert = make_manifest(ExpertAgent(), [SHOP], "test", range(3), 1, "brief", 0)
    assert differences(made(), expert, ["agent"])[0] == "agent's name: random, not expert"


def test_arguments_that_differ_are_named_by_their_path() -> None:
    """In mappings and in the JSON text of other programs' arguments; None is not the same as no argument."""

    def of(kwargs: Any) -> dict[str, Any]:
        return {"worlds": [{"id": "w", "kwargs": kwargs, "tasks": []}]}

    one, other = ({"a": {"tools": tools, "seed": 0}, "text": "{"} for tools in (True, False))
    for form in (dict, json.dumps):
        assert differences(of(form(one)), of(form(other)), ["worlds"]) == ["w's kwargs.a.tools: true, not false"]
    assert differences(of({"a": [1]}), of({"a": {"b": 1}}), ["worlds"]) == ['w\'s kwargs.a: [1], not {"b": 1}']
    assert differences(of({}), of({"a": None}), ["worlds"]) == ['w\'s kwargs: {}, not {"a": null}']
    assert differences(of('{"a": 1}'), of('{"a": true}'), ["worlds"]) == ['w\'s kwargs: {"a": 1}, not {"a": true}']


def test_a_folder_goes_on_where_it_was_left(tmp_path: Path, episode: Callable[..., Trajectory]) -> None:
    """The episodes that are there come back, a torn one is not; another evaluation is refused and told apart."""
    folder = EvalFolder.unfinished(tmp_path / "a")
    with folder.recording(made()) as before:
        assert before == []
        store.append(folder.trajectories, [episode("look"), episode("look")])
    with folder.trajectories.open("ab") as file:
        file.write(b'{"id": "t2", "pro')
    with EvalFolder.unfinished(tmp_path / "a").recording(made()) as before:
        assert [each.id for each in before] == ["t0", "t0"]
        with pytest.raises(RunError, match="in use"), EvalFolder.unfinished(tmp_path / "a").recording(made()):
            pass
    with pytest.raises(RunError, match=r"holds another evaluation: seed: 0, not 1$"), folder.recording(made(seed=1)):
        pass
    folder.finish({})
    with pytest.raises(RunError, match="already holds a finished evaluation"):
        EvalFolder.unfinished(tmp_path / "a")
    assert EvalFolder.finished(tmp_path / "a").manifest() == made()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """A folder of something else is refused; one that stopped before its first episode leaves nothing in the way."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").touch()
    with pytest.raises(RunError, match="already holds other files"):
        EvalFolder.unfinished(tmp_path / "b")
    folder = EvalFolder.unfinished(tmp_path / "c")
    with folder.recording(made()):
        folder.discard()
    with EvalFolder.unfinished(tmp_path / "c").recording(made(seed=9)) as before:
        assert before == []


def test_what_is_no_finished_evaluation_says_why(tmp_path: Path) -> None:
    """No folder, no result, no manifest, one of something else."""
    with pytest.raises(RunError, match="no: no such folder"):
        EvalFolder.finished(tmp_path / "no")
    folder = EvalFolder.unfinished(tmp_path / "a")
    with folder.recording(made()):
        store.append(folder.trajectories, [])
    with pytest.raises(RunError, match=r"it has no result\.json$"):
        EvalFolder.finished(tmp_path / "a")
    for text, said in (("{", "cannot be read"), ("{}", "has no 'worlds'"), (json.dumps(made() | {"format": 2}), "2")):
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(RunError, match=said):
            read_manifest(tmp_path / "m.json")
