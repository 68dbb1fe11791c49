"""Certificates: a sound world passes, planted defects are found, and JSON and badge say what was found."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scripts import load_script

from agentgym_py import registry
from agentgym_py.certificate import ALL_CHECKS, CRITERIA, OPENENV_IDS, certify, criteria
from agentgym_py.certificate import certificate as certificates
from agentgym_py.certificate.badge import badge
from agentgym_py.certificate.certificate import CertificateSettings, file_stem
from agentgym_py.certificate.criteria import Hardness, Opening, WordBits, z_score
from agentgym_py.certificate.gameable import hedged, wildcards
from agentgym_py.certificate.learnable import History, LinearPolicy, climbs, features
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_class, short_name
from agentgym_py.errors import UnknownNameError
from agentgym_py.rng import Rng
from agentgym_py.testing import CHECKS, Settings
from agentgym_py.testing.report import Failure, Result, Status
from agentgym_py.testing.runner import run_check

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # the benchmark imports another one
benchmark = load_script("benchmarks/certificate.py")
QUICK = Settings(episodes=16, memory_episodes=20)
FOUND = [
    "the step limit of hard is too low", "success pays nothing", "a wrong answer pays as much",
    "the right number among others is accepted", "an empty answer is right", "easy and hard are exchanged",
    "test instructions differ by an exclamation mark", "the numbers of the problem are hidden",
]  # fmt: skip
"""Defects that the expected check finds in few episodes; `benchmarks/certificate.py` has all."""


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_defect_is_found(name: str) -> None:
    """By the expected check, with an episode in the world's own difficulty that reproduces it."""
    number, defect = next((n, d) for n, d in enumerate(benchmark.DEFECTS) if d.name == name)
    with benchmark.planted(defect, number) as spec:
        result = run_check(defect.check, spec, QUICK, ALL_CHECKS)
        assert result.failure, result
        if result.failure.moves and result.failure.moves.options:
            assert result.failure.replay(spec).current_task is not None
            assert "gymnasium.make" in result.failure.script(spec)


def test_copies_without_a_defect_pass() -> None:
    """A copied world is found faulty for its defect only, not for being a copy."""
    copy = benchmark.Defect("none", "maze", "card", ())
    with benchmark.planted(copy, 99) as spec:
        for name in ("card", "tasks", "expert", "leaks", "solvable", "gameable"):
            assert run_check(name, spec, QUICK, ALL_CHECKS).status == "passed"


@pytest.mark.parametrize("name", CRITERIA)
def test_a_sound_world_passes(name: str) -> None:
    """The calculator meets every criterion."""
    result = run_check(name, EnvSpec("calculator"), Settings(episodes=24), ALL_CHECKS)
    assert result.status == "passed", result.failure


def test_the_json_has_openenvs_rows_and_the_verdict(tmp_path: Path) -> None:
    """Some checks only make an incomplete certificate; its rows are in OpenEnv's form."""
    certificate = certify("maze", ["solvable", "card"], QUICK)
    paths = certificate.write(tmp_path / "made")
    stored = json.loads(paths[0].read_text())
    assert stored["verdict"] == certificate.verdict == "incomplete" and stored["ok"] is True
    assert [(row["check"], row["kind"]) for row in stored["checks"]] == [("solvable", "criterion"), ("card", "kit")]
    (row,) = stored["openenv"]
    assert row["check_id"] == "semantic.oracle_max" and row["status"] == "pass" and len(row["evidence"]) == 3
    assert label_of(paths[1].read_text()) == "AgentMaze-v0 certificate: incomplete, 2 checks"
    assert stored["predicted_seconds"] >= 0
    with pytest.raises(UnknownNameError, match="learnable"):
        certify("maze", ["learnabel"], QUICK)


def test_certificates_of_other_arguments_and_incomplete_ones_have_other_files(tmp_path: Path) -> None:
    """A whole certificate is replaced neither by one with fewer checks nor by one of another difficulty."""
    part = certify(EnvSpec("maze", {"difficulty": "hard", "max_steps": 9}), ["card"], QUICK)
    every = tuple(Result(check, "", "skipped", 0.0) for check in ALL_CHECKS)
    whole = replace(part, report=replace(part.report, results=every))
    easy = replace(whole, report=replace(whole.report, spec=EnvSpec("maze")))
    names = [certificate.write(tmp_path)[0].name for certificate in (part, whole, easy)]
    stem = "AgentMaze-v0-difficulty-hard-max_steps-9"
    assert names == [f"{stem}.incomplete.json", f"{stem}.json", "AgentMaze-v0.json"]
    assert not (tmp_path / names[0]).exists()  # the whole one has its place
    odd: list[Any] = [-1, 1, "x/y", "x y", "x-b-y", "+" * 200, "+-" * 200, ["x"]]
    specs = [*({"a": value} for value in odd), {"a": "x", "b": "y"}]
    stems = [file_stem(EnvSpec("maze", kwargs)) for kwargs in specs]
    assert len(set(stems)) == len(specs) and all(len(stem) < 40 and "/" not in stem for stem in stems)
    served = EnvSpec("remote", {"env": "maze", "url": "http://127.0.0.1:1", "token": "secret", "difficulty": "hard"})
    assert file_stem(served) == "AgentMaze-v0-difficulty-hard"


def test_ids_belong_to_checks() -> None:
    """Each OpenEnv id is claimed once, by a check that exists; criteria and kit share no name."""
    ids = [name for names in OPENENV_IDS.values() for name in names]
    assert OPENENV_IDS.keys() <= ALL_CHECKS.keys() and len(ids) == len(set(ids))
    assert not CRITERIA.keys() & CHECKS.keys()


@pytest.mark.parametrize(("returns", "status"), [([0.0, 1.0, 0.0, 1.0, 1.0], "passed"), ([0.6] * 5, "failed")])
def test_a_floor_may_be_high_by_chance(monkeypatch: pytest.MonkeyPatch, returns: list[float], status: str) -> None:
    """Both floors are 0.6 where 0.5 is allowed, but only one of them is known to be."""
    monkeypatch.setattr(criteria, "_expert_return", lambda *_: 1.0)
    monkeypatch.setattr(
        criteria, "_thoughtless_return",
        lambda subject, name, number: 0.0 if name == "says nothing" else returns[number % 5],
    )  # fmt: skip
    assert run_check("floor_and_ceiling", EnvSpec("maze"), Settings(episodes=10), ALL_CHECKS).status == status


def test_a_climb_is_beyond_chance_and_of_fifteen_percent() -> None:
    """14 of 100 tasks are too few although chance does not explain them; 40 against 25 may be chance."""
    assert climbs(15, 0, 100) and not climbs(14, 0, 100) and not climbs(40, 25, 100) and climbs(60, 10, 100)


def test_time_is_predicted_before_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the command or Python asks for the certificate."""
    order = list[str]()

    def predict(*_: object) -> float:
        order.append("predicted")
        return 7.0

    monkeypatch.setattr(certificates, "predict_seconds", predict)
    certificate = certify("maze", ["solvable", "card"], QUICK, lambda result: order.append(result.check))
    assert order == ["predicted", "solvable", "card"] and certificate.predicted_seconds == 7


def label_of(svg: str) -> str:
    """The text that a badge has for screen readers."""
    return ElementTree.fromstring(svg).attrib["aria-label"]  # noqa: S314  # it was written here


def test_a_badge_is_xml_of_both_texts() -> None:
    """Special characters are escaped."""
    assert label_of(badge("A<B> certificate", "failed: a & b", "failed")) == "A<B> certificate: failed: a & b"


def test_z_scores_are_welchs() -> None:
    """Against the formula, and for constants."""
    low, high = [1.0, 2.0, 3.0], [4.0, 6.0, 8.0, 6.0]
    expected = (6 - 2) / math.sqrt(np.var(low) / 3 + np.var(high) / 4)
    assert z_score(low, high) == pytest.approx(expected)
    assert z_score([1.0], [2.0]) == math.inf and z_score([2.0], [1.0]) == -math.inf and z_score([1.0], [1.0]) == 0
    assert Hardness([1, 1], [2, 2], [0, 0]).z_scores(Hardness([1, 1], [1, 1], [0, 0])) == [0, math.inf, 0]


def test_twins_share_their_rare_words_or_all_but_the_instruction() -> None:
    """The bits of a word are -log2 of the share of tasks that have it, so that what all tasks have does not count."""
    tasks = [frozenset({"usual", f"w{n}", f"v{n // 2}"}) for n in range(16)]
    bits = WordBits(tasks)
    assert bits.of(frozenset({"usual"})) == 0 and bits.of(frozenset({"w3", "v1"})) == 4 + 3
    assert bits.of(frozenset({"unknown"})) == 4 and bits.overlap(tasks[0], tasks[1]) == 3 / 11
    state, told = frozenset({"w1", "w2", "w3"}), frozenset({"w4", "w5"})
    one, two, three = (Opening("t", "", words, words - told, ()) for words in (state | told, state, told))
    assert one.is_twin(two, bits) and not one.is_twin(three, bits)
    assert not Opening("t", "", frozenset({"usual"}), frozenset(), ()).is_twin(one, bits)


def test_answers_are_hedged_and_replaced() -> None:
    """In brackets and in calls; equal answers and actions without an answer are not."""
    assert hedged("finish[7]", ["finish[8]", "finish[7]"]) == ["finish[7, 8]", "finish[8 7]"]
    assert hedged('finish {"answer": "a"}', ['finish {"answer": "b"}'])[0] == 'finish {"answer": "a, b"}'
    assert hedged("open gate", ["open door"]) == [] == hedged("finish[7]", ["finish[7]"])
    assert "finish[]" in wildcards("finish[7]") and wildcards("look") == []


def test_the_policy_learns_which_action_names_the_request() -> None:
    """After training it chooses the action whose word the request has, also for words that it has not met."""
    policy, rng, choices = LinearPolicy(), Rng("words"), []
    for number in range(60):
        actions = [f"take w{number}x{k}" for k in range(4)]
        right = rng.below(4)
        history = History([f"w{number}x{right}"], ["start"], {"start"})
        choices.append((policy.encode(history, actions, grow=True), right))
    policy.fit(choices, rng, math.inf)
    assert policy.choose(History(["new"], ["start"], {"start"}), ["take old", "take new"]) == "take new"


def test_the_policy_knows_what_observations_said_of_a_word() -> None:
    """So the world of twenty questions is learnable in both roles: by answers, and by words that repeat."""
    history = History(["find", "it"], ["ask"], {"ask"})
    history.add("ask red", "Does red fit? No.")
    history.add("ask tin", "Does tin fit? Yes.")
    found = set(features(history, "guess red cup"))
    assert ("said of", "guess", "no") in found and ("said of", "guess", "yes") not in found
    assert ("recalled", "guess", 2, 2) in found, "does and fit were shown before"
    history.add("look", " ".join(f"word{n}" for n in range(13)))
    assert not [name for name in features(history, "take word1") if name[0] == "said of"], "that is no short sentence"
    for role in ("asker", "answerer"):
        result = run_check("learnable", EnvSpec("twentyquestions", {"role": role}), QUICK, ALL_CHECKS)
        assert result.status == "passed", result.failure


def test_a_world_without_a_fair_expert_is_told_so() -> None:
    """Its expert guesses a hidden number, which no policy can learn."""
    world = load_script("examples/my_world.py", "hidden_world").GuessEnv
    hidden = type("HiddenEnv", (world,), {"fair_expert": TextEnv.fair_expert, "name": "hidden"})
    result = certify(hidden, ["learnable"], CertificateSettings(episodes=16)).report.results[0]
    assert result.failure and "because the world has no fair_expert()" in result.failure.message


# ---- rows of the benchmark -------------------------------------------------------------------------------------------


def test_the_benchmark_measures_what_it_has_no_row_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of another number of episodes or version of the world is measured again, others are kept."""
    asked = list[tuple[str, str, int]]()

    def check(name: str, spec: EnvSpec, settings: Settings, _: object) -> Result:
        asked.append((name, spec.kwargs.get("role", ""), settings.episodes))
        status: Status = "failed" if name == "gameable" else "passed"
        failure = Failure("won | it") if status == "failed" else None
        return Result(name, "", status, 1.0, {}, (), {"floor": 0.25} if name == "floor_and_ceiling" else {}, failure)

    monkeypatch.setattr(benchmark, "run_check", check)
    path = tmp_path / "rows.jsonl"
    words = ["--clean", "--worlds", "maze", "errand", "--checks", "floor_and_ceiling", "--results", str(path)]
    benchmark.main(words)
    benchmark.main(words)
    assert asked == [("floor_and_ceiling", role, 30) for role in ("", "client", "shopper")]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "version": row["version"] - (not row["role"])}) + "\n" for row in rows))
    benchmark.main(words)
    assert asked[3:] == [("floor_and_ceiling", "", 30)]
    benchmark.main([*words, "--episodes", "7"])
    assert len(asked) == 7 and len(path.read_text().splitlines()) == 3
    capsys.readouterr()
    benchmark.main(["--clean", "--worlds", "maze", "--checks", "gameable", "--results", str(path)])
    table, says = capsys.readouterr().out.strip().split("\n\n")
    assert "| maze | – | 0.25 | – | – | – | – | `gameable` |" in table.splitlines()
    assert says.startswith("1 false alarms in 4 checks of 2 worlds")


def test_the_rows_of_the_docs_are_of_every_world_and_defect() -> None:
    """Each world has a row for each role and criterion; each defect has one. Rows of an old version are marked."""
    clean = benchmark.read_state(benchmark.CleanRow, benchmark.ROWS["clean"])
    worlds = [short_name(name) for name in registry.names("agentgym.envs")]
    wanted = {(world, role, check) for world in worlds for role in benchmark.roles_of(world) for check in CRITERIA}
    assert {row.key for row in clean} == wanted
    table = next(benchmark.clean_tables(clean))
    for row in clean:
        is_old = row.version != getattr(env_class(row.world), "version", 0)
        assert (f"| {row.title} † |" in table) == is_old and (f"| {row.title} |" in table) != is_old, row.key
    planted = benchmark.read_state(benchmark.PlantedRow, benchmark.ROWS["planted"])
    assert {row.key for row in planted} == {(defect.world, defect.name) for defect in benchmark.DEFECTS}
