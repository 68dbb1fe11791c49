"""Pages of single measurements."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agentgym_py.credit.lab import CreditReport, EstimatorScore
from agentgym_py.credit.probes import CreditConfig
from agentgym_py.errors import WriteError
from agentgym_py.evaluation.anytime import AnytimeTest, SequentialComparison
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.report.sheet import write_comparison, write_credit


def elements(path: Path) -> ElementTree.Element:
    """The page as XML, which has neither a script nor an address."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "<script" not in text and "://" not in text
    body = text[text.index("<body>") :].removesuffix("</html>")
    return ElementTree.fromstring(body.replace("xlink:href", "href").replace("<details open>", "<details>"))  # noqa: S314


def words(page: ElementTree.Element, tag: str) -> list[str]:
    """The texts of all elements of a kind."""
    return ["".join(element.itertext()).strip() for element in page.iter(tag)]


def credit_report(name: str = "tree") -> CreditReport:
    """Two estimators, one with nothing to say of its interval."""
    one = Estimate(0.5, 0.25, 0.75, 9)
    alone = Estimate(0.25, math.nan, math.nan, 1)
    scores = [EstimatorScore(name, one, one, 0.1, one, one), EstimatorScore("grpo", alone, alone, 0.2, alone, alone)]
    return CreditReport(
        scores, "random", ["AgentMaze-v0, difficulty easy"], "exact", 3, 9, 0.2, "advantages", {}, CreditConfig()
    )


def test_a_ranking_has_figures_with_intervals(tmp_path: Path) -> None:
    """One per measure, each with its numbers, the estimators in the order of the table."""
    page = elements(write_credit(tmp_path / "new" / "credit.html", credit_report("<mine>")))
    assert words(page, "figcaption") == [
        "Cosine of advantages with the true ones", "Rank correlation with the true advantages", "Bias, mean over steps",
        "Bias, root mean square",
    ]  # fmt: skip
    cells = words(page, "td")
    assert cells[:8] == ["<mine>", "0.50", "0.25", "0.75", "grpo", "0.25", "–", "–"]
    assert "+0.500 [+0.250, +0.750]" in cells and words(page, "dd")[1:3] == ["AgentMaze-v0, difficulty easy", "3"]
    pytest.importorskip("matplotlib")
    assert len(list(page.iter("svg"))) == 4


def test_a_comparison_has_the_interval_after_each_task(tmp_path: Path) -> None:
    """It ends with the decision's numbers; long ones are drawn at some of the tasks."""
    test = AnytimeTest()
    trace = [test.add(1.0).difference for _ in range(300)]
    page = elements(write_comparison(tmp_path / "c.html", SequentialComparison("a", "b", None, test.result, trace)))
    rows = [words(row, "td") for row in page.iter("tr")][1:]
    assert rows[0] == ["1", "+100.0", "-98.5", "+100.0"] and rows[-1][:2] == ["300", "+100.0"] and len(rows) == 120
    assert "first" in words(page, "dd") and any("a is better" in text for text in words(page, "p"))
    empty = SequentialComparison("a", "b", None, AnytimeTest().result)
    assert not words(elements(write_comparison(tmp_path / "c.html", empty)), "figure")


def test_a_page_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    """With the path."""
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=r"file/credit\.html cannot be written"):
        write_credit(tmp_path / "file" / "credit.html", credit_report())
