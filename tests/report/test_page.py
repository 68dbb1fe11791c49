"""The page of a run."""

from __future__ import annotations

import html as html_text
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.env import StopReason
from agentgym_py.errors import RunError
from agentgym_py.evaluation import summarise
from agentgym_py.evaluation.evaluate import summary_dict
from agentgym_py.evaluation.first_fault import FAULTS, find_first_fault, first_faults
from agentgym_py.evaluation.text import format_interval
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.files import write_atomic
from agentgym_py.report import figures
from agentgym_py.report.comparison import comparison, role
from agentgym_py.report.episodes import fault_table, outcomes_of, task_changes
from agentgym_py.report.page import SMOKE, TimeUnit, max_return, remarks, write_report
from agentgym_py.trajectory import Provenance, Step, Trajectory, store

NASTY = "<script>alert('x')</script> & \"quotes\" {{ 7 * 7 }} \ud800 ✓"
CONFIG = {"env": ["guess"], "rounds": 3, "model": "tiny", "seed": 0, "trainer": {"name": "filtered_bc"}}


def episode(number: int, success: bool, text: str = "Higher.") -> Trajectory:
    """One episode of two steps."""
    steps = (
        Step("Find a number.", "Action: guess[3]", "I try the middle.", "guess[3]", None, 0.0, True),
        Step(text, f"Action: {text}", "", text, "{}", float(success), success),
    )
    return Trajectory(
        f"guess/valid/{number}#0", Provenance("Guess-v0", 0, {}, f"guess/valid/{number}", 1, "m"), "valid", "guess",
        "easy", "Find a number.", "The rules.", steps, text, float(success), success,
        StopReason.TERMINATED if success else StopReason.TRUNCATED,
    )  # fmt: skip


def make_run(path: Path, rounds: int = 3, *, test: bool = True, text: str = "Higher.") -> RunFolder:
    """A run whose success rate grows."""
    folder = RunFolder.create(path, CONFIG)
    folder.write_json("provenance.json", {"command": ["agentgym", "evolve"], "packages": {"torch": "2.13.0"}})
    for number in range(rounds):
        played = [episode(i, i % 10 < 3 + 2 * number, text) for i in range(60)]
        for name in ("trajectories", "valid", "test"):
            store.write(folder.round(number) / f"{name}.jsonl", played)
        folder.finish_round(number, metrics_of(number, played))
    if test:
        result = {str(n): summarise([episode(i, i % 10 < 3 + 2 * n) for i in range(60)]).as_dict() for n in (0, 2)}
        folder.write_json("test.json", {"last": 2, "best": 2, "tasks": 60, "rounds": result})
    return folder


def metrics_of(number: int, played: list[Trajectory]) -> dict[str, Any]:
    """What `Evolution` writes of a round."""
    line = "kept 18 of 60; dropped: 42 below reward 1"
    return {
        "round": number, "explored": summarise(played).as_dict(), "valid": summarise(played).as_dict(),
        "selection": {"kept": 18, "dropped": {"below reward 1": 42}, "line": line},
        "training": {"loss": [3.2, 0.4], "trajectories": 42}, "policy_digest": "d", "seconds": 12.0,
    }  # fmt: skip


@pytest.fixture
def charts() -> None:
    """Draw the charts, which takes most of a page's time."""


@pytest.fixture(autouse=True)
def _without_charts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "charts" not in request.fixturenames:
        monkeypatch.setattr("agentgym_py.report.svg.has_matplotlib", lambda: False)


class Tags(HTMLParser):
    """Collects the tags and checks that they are closed in order."""

    VOID = frozenset(("meta", "br", "line", "circle", "rect", "polygon", "polyline"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag opens."""
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself."""
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """A tag closes: the last that opened."""
        assert self.open.pop() == tag


def page(path: Path) -> str:
    """The written page."""
    return write_report(path).read_text(encoding="utf-8")


@pytest.mark.usefixtures("charts")
def test_everything_stands_in_it(tmp_path: Path) -> None:
    """Rounds, selection, the curve, the comparison with its test, provenance and trajectories."""
    make_run(tmp_path / "run")
    html = page(tmp_path / "run")
    for wanted in (
        "kept 18 of 60; dropped: 42 below reward 1", "3.20 → 0.40", "<svg", "Agent_v0 (round 0)",
        "last and best (round 2)", "McNemar p", "torch 2.13.0", "agentgym evolve", "Round 0", "Round 2",
        "I try the middle.", "guess[3]", "not valid here", "guess/valid/0", "finished", "The rules.",
    ):  # fmt: skip
        assert wanted in html, wanted


def test_the_chart_of_rewards_ends_at_the_largest_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the run's worlds, if each declares it; otherwise at 1, as for a source, which a report does not run."""
    folder, tops = make_run(tmp_path / "run"), dict[str, Any]()
    monkeypatch.setattr(
        "agentgym_py.report.figures.line_chart", lambda title, *_, top=None, **__: tops.setdefault(title, top)
    )
    monkeypatch.setattr("agentgym_envs.maze.env.MazeEnv.max_return", 2.5)
    for env, top in ((["maze", "shop"], 2.5), (["maze", "guess"], 1.0), (["maze", "my_world.py"], 1.0)):
        tops.clear()
        rounds = [folder.metrics(number) for number in folder.finished_rounds()]
        list(figures.outcomes(rounds, {}, max_return({"env": env})))
        assert tops == {"Success": None, "Reward": top}


def test_the_time_is_the_rounds_and_the_tests(tmp_path: Path) -> None:
    """What the run took in all; a run of an older version has no time of its test."""
    folder = make_run(tmp_path / "run")
    assert "<dd>36 s</dd>" in page(tmp_path / "run")
    folder.write_json("test.json", folder.read_json("test.json") | {"seconds": 30.5})
    assert "<dd>66 s</dd>" in page(tmp_path / "run")


@pytest.mark.parametrize(("seconds", "unit"), [(59.0, "s"), (300.0, "min"), (4000.0, "h")])
def test_a_page_has_one_unit_of_time(tmp_path: Path, seconds: float, unit: str) -> None:
    """The whole run and each round, whatever a round took."""
    folder = make_run(tmp_path / "run")
    folder.finish_round(1, folder.metrics(1) | {"seconds": 3 * seconds - 24})
    html = page(tmp_path / "run")
    head = TimeUnit.for_run(3 * seconds)
    assert head.name == unit and f"<dd>{head.text(3 * seconds)}</dd>" in html and f"<th>time, {unit}</th>" in html
    cells = re.findall(rf'<td data-label="time, {unit}">(.*?)</td>', html)
    assert cells == [head.number(each) for each in (12, 3 * seconds - 24, 12)]


def test_a_failure_with_a_reward_is_explained(tmp_path: Path) -> None:
    """Once in each such episode, with the command that shows what the world counts."""
    folder = make_run(tmp_path / "run", 1, test=False)
    assert "a success needs the whole task" not in page(tmp_path / "run")
    store.write(folder.round(0) / "valid.jsonl", [episode(0, True), replace(episode(1, False), reward=1.0)])
    html = page(tmp_path / "run")
    assert html.count("a success needs the whole task") == 1 and "agentgym envs show guess" in html
    assert html.index("failure (out of steps), reward 1.00") < html.index("a success needs the whole task")


@pytest.mark.parametrize(
    ("worlds", "name"),
    [
        (["guess"], "guess"),
        (["/home/me/my worlds/guess.py"], "'/home/me/my worlds/guess.py'"),
        (["a.py", "b.py:B"], "FILE.py"),
    ],
)
def test_the_advice_names_a_world_that_can_be_shown(tmp_path: Path, worlds: list[str], name: str) -> None:
    """By its source if it is not installed."""
    folder = make_run(tmp_path / "run", 1, test=False)
    write_atomic(folder.path / "run.yaml", yaml.safe_dump(CONFIG | {"env": worlds}))
    store.write(folder.round(0) / "valid.jsonl", [replace(episode(0, False), reward=0.5)])
    assert f"<code>agentgym envs show {name}</code>" in unescape(page(tmp_path / "run"))


def test_a_failure_marks_its_first_fault(tmp_path: Path) -> None:
    """At its step, or at the equal steps that contain it; none in successes and in worlds that are not installed."""
    folder = make_run(tmp_path / "run", 1, test=False)
    assert ">first fault" not in page(tmp_path / "run")
    failed = Collector(RandomAgent(), PlayConfig(seed=0)).collect_batch(jobs_for("maze", "valid", range(1)))
    solved = Collector(ExpertAgent()).collect_batch(jobs_for("maze", "valid", range(1)))
    store.write(folder.round(0) / "valid.jsonl", [*failed, *solved])
    html = page(tmp_path / "run")
    found, fault = re.findall(r">step (\d+).*?<span class=\"bad\">first fault", html), find_first_fault(failed[0])
    assert fault is not None and find_first_fault(solved[0]) is None and [int(step) for step in found] == [fault.step]
    assert f"first fault: {fault.kind}</span>; the expert: {fault.better}" in html


def test_first_faults_stand_in_a_table(tmp_path: Path) -> None:
    """Of the first and the last round, by kind and by tool, with the number of failures that have none."""
    folder = make_run(tmp_path / "run", 2, test=False)
    assert "median step" not in page(tmp_path / "run")
    jobs = jobs_for("maze", "valid", range(3))
    early = Collector(RandomAgent(), PlayConfig(seed=0)).collect_batch(jobs)
    store.write(folder.round(0) / "valid.jsonl", early)
    store.write(folder.round(1) / "valid.jsonl", Collector(ExpertAgent()).collect_batch(jobs))
    header, *rows = fault_table({0: first_faults(early), 1: first_faults([])})
    assert header == ["first fault", "round 0: 3 of 3 failures", "round 1: 0 of 0 failures"]
    assert rows[0][0] in FAULTS and rows[0][2] == "–" and fault_table({0: first_faults([])}) == []
    assert rows[0][1] in page(tmp_path / "run")


def test_a_rise_of_invalid_actions_is_a_remark(tmp_path: Path) -> None:
    """Below the table of the rounds, with a link to an invalid action, and on the console."""
    folder = make_run(tmp_path / "run")
    assert "Invalid actions on the valid split rose" not in page(tmp_path / "run")
    assert remarks(folder) == []
    metrics = folder.metrics(2)
    folder.finish_round(2, metrics | {"valid": metrics["valid"] | {"invalid": 0.9}})
    html = page(tmp_path / "run")
    (anchor,) = re.findall(r'split rose [^<]* <a href="#([^"]+)">An example</a>', html)
    example = html[html.index(f'id="{anchor}"') :].partition("</ol>")[0]
    assert "not valid here" in example
    (remark,) = remarks(folder)
    assert remark in html


@pytest.mark.parametrize(
    ("config", "remark"),
    [
        ({"max_new_tokens": 64}, " at max_new_tokens 64: set a larger one, as max_new_tokens=128"),
        ({}, ": set a larger one, as max_new_tokens=N"),
    ],
)
def test_cut_test_replies_name_the_setting(tmp_path: Path, config: dict[str, Any], remark: str) -> None:
    """On the page and on the console; fewer than 5 % are usual, and not worth a word."""
    folder = make_run(tmp_path / "run")
    write_atomic(folder.path / "run.yaml", yaml.safe_dump(CONFIG | config))
    result = folder.read_json("test.json")
    for share, lines in ((0.04, []), (0.08, [f"8 % of the test replies of round 2 were cut{remark}"])):
        last = result["rounds"]["2"] | {"cut": share}
        folder.write_json("test.json", result | {"rounds": result["rounds"] | {"2": last}})
        assert remarks(folder) == lines
    assert remarks(folder) == [f"8 % of the test replies of round 2 were cut{remark}"] and remark in page(folder.path)
    for repetitive, end in ((None, remark), (0.9, ". 90 % of them repeat one phrase to the end: the agent")):
        last = result["rounds"]["2"] | {"cut": 0.08, "cut_repetitive": repetitive}
        folder.write_json("test.json", result | {"rounds": result["rounds"] | {"2": last}})
        (line,) = remarks(folder)
        assert end in line and line in page(folder.path)


def test_a_run_without_success_says_what_to_try(tmp_path: Path) -> None:
    """Another thing if the training tasks were solved; on the page and on the console."""
    folder = make_run(tmp_path / "run")
    none = {"value": 0.0, "low": 0.0, "high": 0.1, "n": 40}
    result = folder.read_json("test.json")
    rounds = {number: summary | {"success": none} for number, summary in result["rounds"].items()}
    folder.write_json("test.json", result | {"rounds": rounds})
    (remark,) = remarks(folder)
    assert "70 % of the training tasks of round 2" in remark and html_text.escape(remark) in page(folder.path)
    metrics = folder.metrics(2)
    folder.finish_round(2, metrics | {"explored": metrics["explored"] | {"success": none}})
    (remark,) = remarks(folder)
    assert remark.startswith("no test task was solved: watch some episodes") and "more expert_tasks" in remark
    few = {number: summary | {"success": none | {"n": 2}} for number, summary in rounds.items()}
    for tested in (few, {}):
        folder.write_json("test.json", result | {"rounds": tested})
        assert remarks(folder) == []


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_without_valid_actions_says_so(tmp_path: Path, finished: bool) -> None:
    """However few the tasks are, on the page and on the console; a run that is not over by its valid tasks."""
    folder = make_run(tmp_path / "run", test=finished)

    def lines(invalid: float | None, success: float = 0.0) -> list[str]:
        none = {"value": success, "low": None, "high": None, "n": 10}
        change = {"success": none, "invalid": invalid}
        if finished:
            result = folder.read_json("test.json")
            rounds = {number: summary | change for number, summary in result["rounds"].items()}
            folder.write_json("test.json", result | {"rounds": rounds})
        for number in folder.finished_rounds():
            metrics = folder.metrics(number)
            folder.finish_round(number, metrics | {"valid": metrics["valid"] | change})
        return remarks(folder)

    assert lines(0.94) == lines(1.0, success=0.1) == lines(None) == []
    assert "and 95 % of the actions were invalid" in lines(0.95)[0]
    (remark,) = lines(1.0)
    split = "test" if finished else "valid"
    assert remark.startswith(f"no {split} task was solved, and all actions were invalid: the agent did not learn")
    assert f"agentgym view {folder.path}" in remark and "more expert_tasks, or as model a base" in remark
    assert html_text.escape(remark) in page(folder.path)


def test_a_finished_run_says_whether_its_constraints_hold(tmp_path: Path) -> None:
    """On the test tasks of the last agent, on the page and on the console."""
    folder = make_run(tmp_path / "run")
    trainer = {"name": "ppo", "constraint": "harm<=0.1,noise<=0.5"}
    write_atomic(folder.path / "run.yaml", yaml.safe_dump(CONFIG | {"trainer": trainer}))
    mean = {"low": None, "high": None, "n": 10}
    result = folder.read_json("test.json")
    last = result["rounds"]["2"] | {"costs": {"harm": mean | {"value": 0.2}, "noise": mean | {"value": 0.5}}}
    folder.write_json("test.json", result | {"rounds": result["rounds"] | {"2": last}})
    (remark,) = remarks(folder)
    assert remark == (
        "constraints on test tasks, round 2: harm <= 0.1 is violated: 0.200 per episode; noise <= 0.5 holds: "
        "0.500 per episode"
    )
    assert html_text.escape(remark) in page(folder.path)


@pytest.mark.usefixtures("charts")
def test_it_is_whole_html_without_network(tmp_path: Path) -> None:
    """Tags are closed in order; no script, link, image or address."""
    make_run(tmp_path / "run")
    html = page(tmp_path / "run")
    tags = Tags()
    tags.feed(html)
    assert not tags.open and not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert not re.search(r"https?://|url\((?!#)|@import", html)


def test_what_a_world_or_model_writes_is_text(tmp_path: Path) -> None:
    """An observation with a script, a template or half a surrogate pair is shown as it is, never run."""
    make_run(tmp_path / "run", text=NASTY)
    html = page(tmp_path / "run")
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "{{ 7 * 7 }}" in html and "✓" in html


@pytest.mark.parametrize(("done", "said"), [(0, "begun"), (1, "Agent_v0 and 0 of 3 rounds so far")])
def test_a_run_at_its_beginning_has_a_page(tmp_path: Path, done: int, said: str) -> None:
    """Nothing, or Agent_v0, and no test yet: rounds are counted as the command counts them."""
    make_run(tmp_path / "run", done, test=False)
    html = page(tmp_path / "run")
    assert f">{said}<" in html and "McNemar" not in html


def test_a_round_that_trained_on_nothing_says_so(tmp_path: Path) -> None:
    """With allow_empty there is no training report."""
    folder = make_run(tmp_path / "run", 1, test=False)
    folder.finish_round(0, folder.metrics(0) | {"training": None})
    assert "not trained" in page(tmp_path / "run")


def test_without_examples_or_provenance_it_still_stands(tmp_path: Path) -> None:
    """A run of an older version lacks files."""
    folder = make_run(tmp_path / "run")
    (folder.path / "provenance.json").unlink()
    (folder.round(0) / "valid.jsonl").unlink()
    (folder.round(2) / "valid.jsonl").write_bytes(b'{"torn')
    assert "Rounds" in page(tmp_path / "run")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    """There is nothing to report on."""
    with pytest.raises(RunError, match="holds no run"):
        write_report(tmp_path)


def test_the_comparison_is_paired_by_task(tmp_path: Path) -> None:
    """Rows for Agent_v0 and the last round; the sentence counts the tasks in which they differ."""
    rows, sentence = comparison(make_run(tmp_path / "run"))
    assert [row[0] for row in rows] == ["Agent_v0 (round 0)", "last and best (round 2)"]
    assert "on the same 60 tasks: +40.0 points" in sentence
    assert sentence.endswith("; 24 solved only by the last, 0 only by Agent_v0")


def test_each_of_several_worlds_has_a_row(tmp_path: Path) -> None:
    """Below the agent's, in the table and on the page."""
    folder = make_run(tmp_path / "run")
    played = [episode(i, False) for i in range(4)]
    played += [replace(each, provenance=replace(each.provenance, env_id="AgentTodo-v0")) for each in played]
    result = folder.read_json("test.json")
    folder.write_json("test.json", result | {"rounds": result["rounds"] | {"2": summary_dict(played)}})
    names = [row[0] for row in comparison(folder)[0]]
    assert names == ["Agent_v0 (round 0)", "last and best (round 2)", "… in guess", "… in todo"]
    assert ">… in todo</td>" in page(tmp_path / "run")


def test_few_test_tasks_are_said(tmp_path: Path) -> None:
    """Beside the table, whose cells stay short; agents that never differ may differ all the same."""
    folder = make_run(tmp_path / "run")
    played = [episode(i, False) for i in range(4)]
    for number in (0, 2):
        store.write(folder.round(number) / "test.jsonl", played)
    same = dict.fromkeys(("0", "2"), summarise(played).as_dict())
    folder.write_json("test.json", {"last": 2, "best": 0, "tasks": 4, "rounds": same})
    rows, line = comparison(folder)
    assert [row[1:3] for row in rows] == [["0.0 % [0, 49]", "0.000 (n too small)"]] * 2
    assert line.startswith("only 4 tasks; last − Agent_v0 on the same 4 tasks: +0.0 points [-33, +33], McNemar p = 1.0")


def test_tasks_that_do_not_match_are_not_compared(tmp_path: Path) -> None:
    """Where one agent's episodes failed by infrastructure there is no pair."""
    folder = make_run(tmp_path / "run")
    played = list(store.read(folder.round(2) / "test.jsonl"))
    store.write(folder.round(2) / "test.jsonl", [replace(played[0], error="boom"), *played[1:]])
    assert comparison(folder)[1] == ""


def test_tasks_turn_from_failed_to_solved_and_back() -> None:
    """Counted against the round before, on the tasks that count in both; a task that never changed is not named."""
    rows, changed = task_changes({
        0: {"a": 0.0, "b": 1.0, "c": 1.0, "d": 0.0}, 1: {"a": 1.0, "b": 0.0, "c": 1.0},
        3: {"a": 1.0, "b": 1.0, "c": 1.0},
    })  # fmt: skip
    assert rows == [[1, 2, 1, 1], [3, 3, 1, 0]]
    assert {each.task: list(each.solved.values()) for each in changed} == {
        "a": [False, True, True], "b": [True, False, True],
    }  # fmt: skip


def test_the_page_names_the_tasks_that_turned(tmp_path: Path) -> None:
    """With their number by round, and links to those episodes that are shown."""
    make_run(tmp_path / "run")
    html = page(tmp_path / "run")
    assert re.search(r"<td[^>]*>1</td><td[^>]*>30</td><td[^>]*>12</td><td[^>]*>0</td>", html)
    (row,) = re.findall(r"<tr><td[^>]*>guess/valid/3</td>.*?</tr>", html, re.DOTALL)
    assert re.findall(r">(solved|failed|–)<", row) == ["failed", "solved", "solved"]
    assert [anchor in html for anchor in re.findall(r'href="#(round-[\w-]+)"', row)] == [True, True]
    assert ">guess/valid/0</td>" not in html


def test_kinds_of_failure_lead_to_an_episode(tmp_path: Path) -> None:
    """Each kind that came has a link to an example on the page, whose head says the kind."""
    folder = make_run(tmp_path / "run", 1, test=False)
    cut = replace(episode(0, False), stop_reason=StopReason.TRUNCATED)
    left = replace(cut, id="2", stop_reason=StopReason.GAVE_UP)
    played = [episode(1, True), cut, left, *[replace(cut, id=f"n{i}") for i in range(3)]]
    store.write(folder.round(0) / "valid.jsonl", played)
    folder.finish_round(0, metrics_of(0, played))
    html = page(tmp_path / "run")
    links = dict(re.findall(r'(\d+) <a href="#(round-0-\d)">', html))
    assert set(links) == {"1", "4"} and all(f'<div id="{anchor}">' in html for anchor in links.values())
    assert html.count("failure (gave up)") == html.count("failure (out of steps)") == 1


def test_without_matplotlib_the_numbers_stand_there(tmp_path: Path) -> None:
    """The page says what is missing, and its tables are open."""
    make_run(tmp_path / "run")
    html = page(tmp_path / "run")
    assert "Charts need matplotlib" in html and "<svg" not in html and "<details open><summary>Success: numbers" in html


def test_a_net_s_note_stands_with_its_round(tmp_path: Path) -> None:
    """What a trainer noticed is not lost."""
    folder = make_run(tmp_path / "run", 1, test=False)
    training = folder.metrics(0)["training"] | {"notes": ["collapse: entropy <0.01"]}
    folder.finish_round(0, folder.metrics(0) | {"training": training})
    assert "collapse: entropy &lt;0.01" in page(tmp_path / "run")


def test_the_result_stands_at_the_top(tmp_path: Path) -> None:
    """Success on the test split, of Agent_v0 and of the last agent; a run without tests has none."""
    folder = make_run(tmp_path / "run")
    rates = [format_interval(read_estimate(folder.read_json("test.json")["rounds"][n]["success"])) for n in ("0", "2")]
    assert f"<dt>success on test tasks</dt><dd>{rates[0]} → {rates[1]}</dd>" in page(folder.path)
    folder.write_json("test.json", {**folder.read_json("test.json"), "rounds": {}})
    assert "success on test tasks" not in page(folder.path)


def test_a_long_path_of_a_model_is_shortened(tmp_path: Path) -> None:
    """At the top of the page; a hub id stays as it is."""
    folder = make_run(tmp_path / "run")
    for model, shown in (
        ("/home/somewhere/with/many/folders/runs/sft/rounds/00/checkpoint", "…/sft/rounds/00/checkpoint"),
        ("organisation/a-model-with-a-rather-long-name-7B", "organisation/a-model-with-a-rather-long-name-7B"),
    ):
        write_atomic(folder.path / "run.yaml", yaml.safe_dump(CONFIG | {"model": model}))
        assert f"<dt>model</dt><dd>{shown}</dd>" in page(folder.path)


def test_no_line_breaks_an_option(tmp_path: Path) -> None:
    """Browsers break after a hyphen; other text stays as it is, and is escaped."""
    folder = make_run(tmp_path / "run")
    folder.write_json("provenance.json", {"command": ["agentgym", "evolve", "--env_kwargs.max_steps", "<9>", "a--b"]})
    assert 'evolve <span class="whole">--env_kwargs.max_steps</span> &lt;9&gt; a--b' in page(folder.path)


def test_roles() -> None:
    """A round may be several things at once."""
    assert role(0, 0, 0) == "Agent_v0 (round 0)"
    assert role(0, 3, 0) == "Agent_v0 and best (round 0)"
    assert role(2, 3, 2) == "best (round 2)"
    assert role(3, 3, 2) == "last (round 3)"


def test_a_round_without_a_counted_episode_has_a_page(tmp_path: Path) -> None:
    """Infrastructure ended every episode: what is not a number is null in the files and a dash on the page."""
    folder = make_run(tmp_path / "run", 2, test=False)
    played = [replace(episode(i, False), error="lost") for i in range(3)]
    folder.finish_round(1, metrics_of(1, played))
    assert folder.metrics(1)["valid"]["success"]["value"] is None
    assert ">–</td>" in page(tmp_path / "run")


def test_resumptions_stand_on_the_page(tmp_path: Path) -> None:
    """Each with its time and version."""
    folder = make_run(tmp_path / "run")
    again = {"started": "2031-02-03T04:05:06", "packages": {"agentgym-py": "9.9"}}
    folder.write_json("provenance.json", {"resumed": [again]})
    assert "2031-02-03T04:05:06 (agentgym-py 9.9)" in page(tmp_path / "run")


def test_equal_steps_after_each_other_are_one(tmp_path: Path) -> None:
    """A stuck agent's are folded, with their number; another observation, reward or action stands for itself."""
    folder = make_run(tmp_path / "run", 1, test=False)
    opening, stuck = episode(0, False).steps
    other = replace(stuck, observation="Lower.")
    steps = (opening, *[stuck] * 13, other, other, replace(other, reward=0.5), stuck)
    store.write(folder.round(0) / "valid.jsonl", [replace(episode(0, False), steps=steps)])
    html = page(tmp_path / "run")
    assert re.findall(r"the same step (.*), to step (\d+)", html) == [("12 more times", "14"), ("1 more time", "16")]
    assert re.findall(r">step (\d+)", html) == ["1", "2", "15", "17", "18"]
    assert "18 steps" in html


def test_an_instruction_that_the_episode_says_is_not_above_it_too(tmp_path: Path) -> None:
    """It is in the line that opens the episode while that is closed; one that is said nowhere else stays."""
    folder = make_run(tmp_path / "run", 1, test=False)
    played = [episode(0, True), replace(episode(1, False), instruction="Be quick.")]
    store.write(folder.round(0) / "valid.jsonl", played)
    html = page(tmp_path / "run")
    assert '<span class="told"><br>Find a number.</span>' in html and '<span class=""><br>Be quick.</span>' in html
    assert "details[open] > summary .told { display: none; }" in html


def test_a_smoke_run_says_that_its_rates_mean_nothing(tmp_path: Path) -> None:
    """Above all else; any other run says no such thing."""
    folder = make_run(tmp_path / "run")
    assert SMOKE not in page(tmp_path / "run")
    folder.write_json("provenance.json", {"preset": "smoke"})
    head, _, rest = page(tmp_path / "run").partition("<dl")
    assert SMOKE in head and SMOKE not in rest


def test_it_says_which_expert_made_the_first_agent(tmp_path: Path) -> None:
    """As the settings have it; a run of an older version may say no more than `expert`."""
    folder = make_run(tmp_path / "run", 1, test=False)
    assert "cloned from the expert." in page(tmp_path / "run")
    write_atomic(folder.path / "run.yaml", yaml.safe_dump(CONFIG | {"expert": "fair"}))
    folder.finish_round(0, folder.metrics(0) | {"player": "the fair expert"})
    assert "cloned from the fair expert." in page(tmp_path / "run")
    assert "the fair expert: kept 18 of 60" in page(tmp_path / "run")


def test_roles_have_outcomes_of_their_own(tmp_path: Path, episode: Callable[..., Trajectory]) -> None:
    """Their tasks have the same ids; a task with two episodes has no one outcome."""
    one = episode("a")
    other = replace(one, provenance=replace(one.provenance, env_kwargs={"role": "executor"}), success=False)
    store.write(tmp_path / "a.jsonl", [one, other])
    assert outcomes_of(tmp_path / "a.jsonl") == {one.task_id: 1.0, f"{one.task_id} (executor)": 0.0}
    store.write(tmp_path / "b.jsonl", [one, replace(one, success=False)])
    assert outcomes_of(tmp_path / "b.jsonl") == {}
