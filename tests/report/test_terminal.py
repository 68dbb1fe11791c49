"""What a run looks like in a terminal and in a file."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentgym_py.env import StopReason
from agentgym_py.report.terminal import (
    Phases,
    TerminalReporter,
    columns,
    duration,
    loss_text,
    number_text,
    print_table,
    round_cells,
    selection_line,
)
from agentgym_py.trajectory import Provenance, Trajectory

LINE = "kept 432 of 1000; dropped: 568 below reward 1"
ESTIMATE = {"value": 0.5612, "low": 0.462, "high": 0.653, "n": 100}


def metrics(**change: Any) -> dict[str, Any]:
    """A round's metrics as `Evolution` writes them."""
    return {
        "explored": {"success": {"value": 0.4321, "low": 0.4, "high": 0.5, "n": 1000}},
        "selection": {"kept": 432, "dropped": {"below reward 1": 568}, "line": LINE},
        "training": {"loss": [3.21, 2.0, 0.4], "trajectories": 632}, "seconds": 141.2,
        "valid": {"success": ESTIMATE, "reward": {"value": 0.7123}, "steps": 5.234},
    } | change  # fmt: skip


def trajectory(success: bool, error: str | None = None) -> Trajectory:
    """An episode's outcome."""
    return Trajectory(
        "a", Provenance("x", 0, {}, "t", 0, "m"), "train", "k", "e", "i", "", (), "", 1.0, success,
        StopReason.TERMINATED, error=error,
    )  # fmt: skip


def shown(*, terminal: bool) -> tuple[str, Path]:
    """A run of a round on paper or in a terminal."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, highlight=False, markup=False)
    called = []
    with TerminalReporter(console, lambda: called.append(1)) as reporter:
        reporter.header("AgentEvol on shop", "runs/x")
        heard = reporter.phase(0, "expert", 4)
        for number in range(4):
            heard(trajectory(number > 0, "lost" if number == 3 else None))
        stepped = reporter.training(0, 4)
        for number in range(7):
            stepped(number + 1, 7)
        reporter.round(0, metrics())
        reporter.finish([["Agent_v0", "38.0 [32, 43]", "0.6", "6.1", "3.2 %"]], "a verdict", Path("runs/x/report.html"))
    assert called == [1]
    return out.getvalue(), Path("runs/x/report.html")


def test_in_a_file_there_are_plain_lines() -> None:
    """No control codes; each phase is a line when it ends, each round a row; infrastructure failures do not count."""
    text, report = shown(terminal=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert "  round 0, expert: 4 episodes, 1 infrastructure error, success 66.7 %, 0 s\n" in text
    assert "  round 0, train on 4: 7 steps, 0 s\n" in text
    assert f"{LINE}; trained on 632 in all" in text and "38.0 [32, 43]" in text
    assert text.endswith(f"a verdict\n\nreport: {report}\n")
    assert max(map(len, text.splitlines())) <= 80


def test_a_long_phase_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file, before its first episode too, without a success rate; not after its end, nor while a person types."""
    monkeypatch.setattr("agentgym_py.report.terminal.FIRST", 0.01)
    monkeypatch.setattr("agentgym_py.report.terminal.SILENCE", 0.01)
    out = io.StringIO()

    def wait_for(text: str) -> None:
        until = time.monotonic() + 60
        while text not in out.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        assert text in out.getvalue()

    with pytest.raises(KeyboardInterrupt), Phases(Console(file=out, width=100, highlight=False)) as phases:
        heard = phases.begin("explore", 5)
        wait_for("  explore: 0 of 5, 0 s\n")
        for _ in range(2):
            heard(trajectory(True))
        wait_for("  explore: 2 of 5, ")
        stepped = phases.training("train on 4")
        wait_for("  train on 4: 0 steps, ")
        stepped(5, 20)
        wait_for("  train on 4: 5 of 20, ")
        raise KeyboardInterrupt
    assert out.getvalue().count("success") == out.getvalue().count("  explore: 2 episodes, success 100.0 %") == 1
    said, typing = out.getvalue(), io.StringIO()
    with Phases(Console(file=typing, width=100, highlight=False), bars=False) as phases:
        phases.begin("explore", 5)
        time.sleep(0.1)
    assert out.getvalue().startswith(said) and out.getvalue().count("\n") <= said.count("\n") + 1
    assert typing.getvalue() == "  explore: 0 s\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_header_of_the_rounds_stands_once(terminal: bool) -> None:
    """Rows follow it, also in a file, where each phase is a line between them."""
    out = io.StringIO()
    with TerminalReporter(Console(file=out, force_terminal=terminal, width=100, color_system=None)) as reporter:
        for number in range(3):
            reporter.phase(number, "explore", 1)(trajectory(True))
            reporter.round(number, metrics())
    assert out.getvalue().count("valid success") == 1 and out.getvalue().count("1000 at 43.2 %") == 3


def test_in_a_terminal_there_are_bars_that_go_away() -> None:
    """Bars while it runs; the cursor comes back."""
    text, _ = shown(terminal=True)
    assert "round 0, expert" in text and "━" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") > 0


def test_training_has_a_bar_of_its_steps() -> None:
    """The bar knows how many steps there will be, and fills."""
    with Phases(Console(file=io.StringIO(), force_terminal=True)) as phases:
        phases.begin("explore", 9)
        assert phases._progress is not None and phases._progress.tasks[0].fields["count"] == "0/9"
        phases.clear()
        stepped = phases.training("train")
        (task,) = phases._progress.tasks
        assert (task.completed, task.total) == (0, None)
        stepped(3, 12)
        assert (task.completed, task.total, task.fields["count"]) == (3, 12, "3/12")


def test_bars_end_with_an_exception() -> None:
    """Ctrl-C in a phase leaves the terminal as it was."""
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt), Phases(Console(file=out, force_terminal=True)) as phases:
        phases.begin("explore", 10)
        raise KeyboardInterrupt
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h")


def test_tables_have_no_spaces_at_the_ends_of_lines() -> None:
    """Cells stand below each other, by their width on the screen; what is too wide is cut in a terminal only."""
    assert columns([("a", "b"), ("日本", ""), ("c", "d")]) == ["a     b", "日本", "c     d"]
    for terminal, last in ((False, "row   " + "x" * 30), (True, "row   " + "x" * 13 + "…")):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=20, color_system=None)
        print_table(console, ("name", "what"), [("row", "x" * 30)])
        assert out.getvalue() == f"name  what\n{last}\n"
    assert not re.search(r" \n", shown(terminal=False)[0])


def test_a_round_in_cells() -> None:
    """What was explored, kept, learned and reached, with the interval."""
    assert round_cells(3, metrics()) == [
        "3", "1000 at 43.2 %", "432", "3.21 → 0.40", "56.1 % [46, 65]", "0.71", "5.2", "2:21",
    ]  # fmt: skip


def test_what_the_trainer_left_out_is_said() -> None:
    """By reason, beside what it was trained on."""
    training = {"loss": [], "trajectories": 20, "dropped": {"without a better one": 7, "alone at their task": 5}}
    line = selection_line(metrics(training=training))
    assert "; trained on 20 in all, left out: 7 without a better one, 5 alone at their task" in line


def test_a_constrained_training_shows_its_costs_and_multipliers() -> None:
    """The costs of the first and the last iteration, and the multiplier at the end."""
    history = [{"cost/a": 0.5, "multiplier/a": 0.0}, {"cost/a": 0.25, "multiplier/a": 0.75}]
    line = selection_line(metrics(training={"loss": [], "trajectories": 20, "history": history}))
    assert line.endswith("; a 0.500 → 0.250 per episode, multiplier 0.75")


@pytest.mark.parametrize(
    ("logged", "note"),
    [
        ({"kl_old_k3": 0.5, "kl_ref_k3": 0.0123}, ", KL 0.012"),
        ({"kl_old_k3": 0.5, "kl_ref_k3": None}, ", KL 0.5"),
        ({"kl_old_k3": None}, ""),
    ],
)
def test_an_on_policy_training_shows_success_and_kl(logged: dict[str, Any], note: str) -> None:
    """In place of its loss, which says nothing; an offline training shows its loss alone."""
    history = [{"success": 0.18, "loss": 0.01}, {"success": None}, {"success": 0.345, **logged}]
    row = metrics(training={"loss": [0.01, -0.02], "trajectories": 20, "history": history})
    assert round_cells(1, row)[3] == "–"
    assert selection_line(row).endswith(f"; trained on 20 in all; success of the training 18.0 → 34.5 %{note}")
    row["training"]["history"] = [{"success": rate} for rate in (0.2, 0.1, 0.5, 0.5, 0.5, 0.5, 0.7, 0.4)]
    assert selection_line(row).endswith("; success of the training 15.0 → 55.0 %"), (
        "the first and the last two of eight"
    )
    row["training"]["history"] = [{"success": 0.18, "loss": 0.01}]
    assert selection_line(row).endswith("; success of the training 18.0 %")
    row["training"]["history"] = [{"loss": 0.01}]
    assert round_cells(1, row)[3] == "0.01 → -0.02" and "success" not in selection_line(row)


def test_times_of_a_column_have_one_form() -> None:
    """A short round beside a long one."""
    assert [round_cells(0, metrics(seconds=seconds))[-1] for seconds in (7, 703)] == ["0:07", "11:43"]


def test_few_tasks_and_no_training_are_said() -> None:
    """An interval on few tasks is explained in the line below, and a round without training does not look like one."""
    few = metrics(training=None, valid={"success": ESTIMATE | {"n": 8}, "reward": {"value": None}, "steps": 1.0})
    cells = round_cells(1, few)
    assert cells[3] == "not trained" and cells[4] == "56.1 % [46, 65]" and cells[5] == "–"
    assert selection_line(few) == f"{LINE}; not trained; valid: only 8 tasks"


def test_each_of_several_worlds_is_said() -> None:
    """The pooled success alone would hide a world in which nothing was learnt; of one world nothing is said twice."""
    one = {"shop": {"success": ESTIMATE}}
    two = one | {"todo": {"success": ESTIMATE | {"value": 0.5}}}
    said = {n: selection_line(metrics(valid={"success": ESTIMATE, "worlds": w})) for n, w in ((1, one), (2, two))}
    assert said[2] == f"{LINE}; trained on 632 in all; valid: shop 56.1 % [46, 65], todo 50.0 % [46, 65]"
    assert said[1] == f"{LINE}; trained on 632 in all"
    assert selection_line(metrics()) == f"{LINE}; trained on 632 in all"


def test_episodes_that_were_given_up_are_said() -> None:
    """Of the exploration and of the validation, each where there were any."""
    explored, valid = metrics()["explored"], metrics()["valid"]
    some = metrics(explored=explored | {"given_up": 3}, valid=valid | {"given_up": 1})
    start = f"{LINE}; trained on 632 in all"
    by = "given up by the agent (its context was full, or it had no action left)"
    assert selection_line(some) == f"{start}; exploration: 3 episodes {by}; valid: 1 episode {by}"
    assert selection_line(metrics(explored=explored | {"given_up": 0})) == start


def test_cut_replies_and_dropped_turns_are_shown() -> None:
    """Of the exploration and of the validation; summaries of older versions have neither."""
    explored, valid = metrics()["explored"], metrics()["valid"]
    long = {"rewards": {0.0: 20, 1.0: 30}, "outgrown": 12, "turns_dropped": 31}
    text = selection_line(metrics(explored=explored | {"cut": 0.123, **long}, valid=valid | {"cut": 0.001}))
    assert "; exploration: 12 % of replies cut, 12 of 50 episodes outgrew the context; 31 turns dropped" in text
    assert text.endswith("; valid: less than 1 % of replies cut")


def test_where_no_episode_counted_there_is_a_dash() -> None:
    """Every episode ended by an infrastructure failure: JSON has null for what is not a number."""
    nothing = {"value": None, "low": 0.0, "high": 1.0, "n": 0}
    cells = round_cells(
        1, metrics(explored={"success": nothing}, valid={"success": nothing, "reward": nothing, "steps": 0.0})
    )
    assert cells[1] == "1000 at –" and cells[4:6] == ["–", "–"]


def test_a_round_in_which_nobody_played_says_so() -> None:
    """Round 0 of a run that begins with a model: no expert is spoken of."""
    empty = metrics(
        selection={"kept": 0, "dropped": {}, "line": "kept 0 of 0"}, training=None, player="the fair expert"
    )
    assert selection_line(empty) == "no episodes; not trained" and round_cells(0, empty)[1] == "–"


def test_numbers() -> None:
    """Numbers, intervals and times as people write them."""
    assert [duration(each) for each in (7, 99, 100, 3599.6, 3723)] == ["7 s", "99 s", "1:40", "1:00:00", "1:02:03"]
    assert number_text(None, 1) == "–" and number_text(0.5, 1, 100) == "50.0"


@pytest.mark.parametrize(
    ("loss", "said"),
    [(3.21, "3.21"), (0.1, "0.10"), (0.0123, "0.012"), (0.00004, "4e-05"), (0.0, "0"), (-0.5, "-0.50")],
)
def test_a_small_loss_is_not_said_to_be_nothing(loss: float, said: str) -> None:
    """It has its first two digits, and stands so in its cell."""
    assert loss_text(loss) == said
    assert round_cells(0, metrics(training={"loss": [0.2, loss], "trajectories": 1}))[3] == f"0.20 → {said}"


def test_phases_need_no_console(capsys: pytest.CaptureFixture[str]) -> None:
    """A script's go to stdout, a line each where that is no terminal."""
    with Phases() as phases:
        phases.begin("collect", 1)(trajectory(True))
        phases.training("train")(3, 3)
    assert capsys.readouterr().out == "  collect: 1 episodes, success 100.0 %, 0 s\n  train: 3 steps, 0 s\n"
