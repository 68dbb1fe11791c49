"""The table in tau-bench's terms, against counts by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_envs.service import report
from agentgym_envs.service.env import ServiceEnv
from agentgym_envs.service.report import Served, demands_table, serve_again, table
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.env import EnvSpec
from agentgym_py.errors import DataError
from agentgym_py.trajectory.store import TrajectoryWriter


def cells(text: str, company: str) -> dict[str, str]:
    """Return a row of the table by its heads."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return dict(zip(rows[0], next(row for row in rows if row[1] == company), strict=True))


def test_rates_calls_and_violations_are_means() -> None:
    """pass^k of 2 of 4 successes is 1/2, 1/6, 0 and 0; a task with fewer episodes makes it a dash."""
    episodes = [
        Served("a", "store", success, 3, {"forbidden": 2 * (not success)}) for success in (True, True, False, False)
    ]
    row = cells(table(episodes), "store")
    assert [row[f"pass^{k}"] for k in (1, 2, 3, 4)] == ["50.0 %", "16.7 %", "0.0 %", "0.0 %"]
    assert (row["tasks"], row["episodes"], row["calls"], row["forbidden"]) == ("1", "4", "3.0", "1.00")
    assert row["foreign"] == "0.00" and row["customer"] == "0"
    mixed = table([*episodes, Served("b", "phone", True, 5, {})])
    assert cells(mixed, "phone")["pass^1"] == "100.0 %" and cells(mixed, "phone")["pass^2"] == "–"
    assert cells(mixed, "all")["pass^1"] == "75.0 %"


def test_difficulties_have_rows_of_their_own() -> None:
    """And the shares of demands are counted by task, not by episode."""
    episodes = [Served("a", "store", True, 3, {}, "hard", ("refuse", "two wishes"))] * 3
    episodes += [Served("b", "phone", False, 3, {}, "hard", ("two wishes",)), Served("c", "phone", True, 3, {}, "easy")]
    heads = [[cell.strip() for cell in line.split("|")[1:4]] for line in table(episodes).splitlines()[2:]]
    assert heads == [["easy", "phone", "1"], ["easy", "all", "1"], ["hard", "phone", "1"], ["hard", "store", "1"],
                     ["hard", "all", "2"]]  # fmt: skip
    row = demands_table(episodes).splitlines()[-1]
    assert row == "| hard | all | 2 | 50 % | 0 % | 0 % | 100 % |"


def test_stored_episodes_are_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fair expert of four attempts at six tasks never fails and violates nothing."""
    spec, path = EnvSpec("service", {"difficulty": "easy"}), tmp_path / "trajectories.jsonl"
    collector = Collector(ExpertAgent(fair=True), PlayConfig())
    with TrajectoryWriter(path) as writer:
        for number in range(24):
            writer.append(collector.collect(Job(spec, number // 4, "test")))
    assert report.main([str(path)]) == 0
    printed, demands = capsys.readouterr().out.split("\n\n")
    row = cells(printed, "all")
    shares, env = cells(demands, "all"), ServiceEnv(difficulty="easy", split="test")
    refused = sum(bool(env.puzzle_of(env.task(number)).wishes[0].codes) for number in range(6))
    assert shares["tasks"] == "6" and shares["refuse"] == f"{100 * refused / 6:.0f} %"
    assert shares["facts only when asked"] == shares["two wishes"] == "0 %"
    assert row["pass^4"] == "100.0 %" and row["episodes"] == "24" and row["unconfirmed"] == "0.00"
    assert row["difficulty"] == "easy"


def test_an_episode_that_differs_on_replay_is_an_error() -> None:
    """A stored observation that the customer does not say again."""
    env = ServiceEnv(difficulty="easy")
    episode = Collector(ExpertAgent(), PlayConfig()).collect(Job(EnvSpec("service", {"difficulty": "easy"}), 0))
    assert serve_again(episode, env).success
    with pytest.raises(DataError, match="the end differs on replay"):
        serve_again(replace(episode, final_observation="Customer: No."), env)
    steps = (episode.steps[0], replace(episode.steps[1], observation="?"), *episode.steps[2:])
    with pytest.raises(DataError, match="before step 2 differs on replay"):
        serve_again(replace(episode, steps=steps), env)


def test_a_file_of_another_world_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the episode and its world in the message."""
    path = tmp_path / "maze.jsonl"
    with TrajectoryWriter(path) as writer:
        writer.append(Collector(ExpertAgent(), PlayConfig()).collect(Job(EnvSpec("maze", {"difficulty": "easy"}), 0)))
    assert report.main([str(path)]) == 2
    assert "not of AgentService-v0" in capsys.readouterr().err
