"""The tools world with an index: search by meaning, and the best tools in the first observation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentgym_envs.tools.catalogue import find_tools, searchable
from agentgym_envs.tools.env import ToolsEnv
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.collection.replay import replay
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, DataError, SnapshotError
from agentgym_py.retrieval import ToolIndex, ToolSource


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that nobody trained."""
    vectors = np.random.default_rng(0).normal(size=(4096, 16)).astype(np.float32)
    target = tmp_path_factory.mktemp("index") / "untrained"
    ToolIndex.of(searchable(), vectors).save(target)
    return target


def offered(observation: str) -> list[str]:
    """Names of the tools in a first observation."""
    return [line.partition("(")[0] for line in observation.partition("\nTools:\n")[2].splitlines()]


def test_a_search_uses_the_index(folder: Path) -> None:
    """In place of words; an agent can call what was found."""
    env, index = ToolsEnv(difficulty="retrieval", index=folder), ToolIndex.load(folder)
    env.reset(seed=0, options={"task": "tools/test/retrieval/0"})
    expected = index.search(["cities with much rain"], 5)[0]
    assert tuple(expected) != find_tools("cities with much rain")
    text, *_ = env.step('search_tools {"query": "cities with much rain"}')
    assert [line.partition("(")[0] for line in text.splitlines()] == expected
    assert {*expected} <= {schema["function"]["name"] for schema in env.tools()}
    again = ToolsEnv(difficulty="retrieval", index=folder)
    again.restore(env.snapshot())
    assert again.tools() == env.tools()


def test_a_snapshot_names_its_index(folder: Path, tmp_path: Path) -> None:
    """Another index, or none, would find other tools; a copy of the same one continues."""
    env = ToolsEnv(difficulty="retrieval", index=folder)
    env.reset(seed=0, options={"task": "tools/test/retrieval/0"})
    ToolIndex.load(folder).save(tmp_path / "copy")
    ToolIndex.of(searchable(), ToolIndex.load(folder).features + 1).save(tmp_path / "other")
    ToolsEnv(difficulty="retrieval", index=tmp_path / "copy").restore(env.snapshot())
    for index in (tmp_path / "other", None):
        with pytest.raises(SnapshotError, match="another index"):
            ToolsEnv(difficulty="retrieval", index=index).restore(env.snapshot())


@pytest.mark.parametrize("by_index", [True, False])
def test_the_best_tools_are_offered_first(folder: Path, by_index: bool) -> None:
    """Beside the search; all of them if that is the number."""
    kwargs = {"difficulty": "retrieval", "retrieved": 5, "index": str(folder) if by_index else None}
    env = ToolsEnv(**kwargs)  # type: ignore[arg-type]  # of several types
    observation, _ = env.reset(seed=0, options={"task": "tools/test/retrieval/3"})
    request = env.task("tools/test/retrieval/3").instruction
    best = ToolIndex.load(folder).search([request], 5)[0] if by_index else list(find_tools(request))
    assert offered(observation) == [*best, "search_tools", "undo_last_change", "finish"]
    everything = ToolsEnv(difficulty="retrieval", retrieved=len(searchable()), index=folder)
    observation, _ = everything.reset(seed=0, options={"task": "tools/test/retrieval/3"})
    assert {*offered(observation)} == {*searchable(), "search_tools", "undo_last_change", "finish"}
    assert len(everything.expert()) == len([call for call in env.expert() if not call.startswith("search_tools")])


@pytest.mark.parametrize("retrieved", [0, 5])
def test_the_expert_succeeds_whatever_the_index_knows(folder: Path, retrieved: int) -> None:
    """The purpose of a tool finds it, because equal texts come first; the episodes replay."""
    spec = EnvSpec("tools", {"difficulty": "retrieval", "index": str(folder), "retrieved": retrieved})
    played = Collector(ExpertAgent(fair=True)).collect_batch(jobs_for([spec], "test", range(20)))
    assert all(t.success for t in played) and all(replay(t, spec.make()).holds for t in played[:3])
    assert {t.provenance.files_digest for t in played} == {ToolIndex.load(folder).digest}
    about = replace(played[0].provenance, files_digest="of another index")
    result = replay(replace(played[0], provenance=about), spec.make())
    assert result.difference and result.difference.what == "files of the world"


def test_wrong_arguments_are_refused(folder: Path, tmp_path: Path) -> None:
    """Another difficulty has no search, and an index of other tools is none of these."""
    for kwargs, message in (
        ({"index": folder}, "index needs difficulty retrieval, because medium"),
        ({"retrieved": 3, "difficulty": "hard"}, "retrieved needs difficulty retrieval, because hard has no search"),
        ({"retrieved": -1, "difficulty": "retrieval"}, "retrieved must be from 0 to 997, got -1"),
        ({"retrieved": 998, "difficulty": "retrieval"}, "got 998"),
    ):
        with pytest.raises(ConfigError, match=message):
            ToolsEnv(**kwargs)
    with pytest.raises(DataError, match="no such folder"):
        ToolsEnv(difficulty="retrieval", index=tmp_path / "none")
    ToolIndex.of({"fly": "Fly"}, np.ones((8, 2), dtype=np.float32)).save(tmp_path / "other")
    with pytest.raises(ConfigError, match="is an index of other tools"):
        ToolsEnv(difficulty="retrieval", index=tmp_path / "other")


def test_requests_and_their_parts_name_the_needed_tools() -> None:
    """Each part needs one tool, and those of a request are its parts'; a request without a call has none."""
    env = ToolsEnv(difficulty="retrieval")
    assert isinstance(env, ToolSource) and env.tool_texts() == searchable() and len(searchable()) == 997
    queries = list(env.tool_queries("valid", range(40)))
    requests = {number: env.task(number, "valid") for number in range(40)}
    assert [q.text for q in queries if not q.is_part] == [
        task.instruction for task in requests.values() if env.puzzle_of(task).calls
    ]
    parts = list[str]()
    for query in reversed(queries):
        if query.is_part:
            parts.append(*query.tools)
        else:
            assert {*query.tools} == {*parts} and query.tools
            parts = []
    easy = ToolsEnv(difficulty="easy")
    without = [n for n in range(200) if not easy.puzzle_of(easy.task(n, "train")).calls]
    assert without and list(easy.tool_queries("train", without)) == []
