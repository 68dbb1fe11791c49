"""Evaluations beside each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.compare import Algorithm, Entrant, Resources, RoundOutcomes, compare, compare_algorithms
from agentgym_py.evaluation.stats import bootstrap_mean, holm, mcnemar, runs_mean, sign_flips
from agentgym_py.evaluation.text import format_setting

WORLD = {"id": "AgentShop-v0", "version": 1, "kwargs": {}, "max_steps": 15, "rules": "r", "first_state": "s"}


def entrant(name: str, outcomes: Sequence[Sequence[int]], digest: str | None = None, **manifest: Any) -> Entrant:
    """An evaluation by the outcomes of each task's tries; an empty task was left out."""
    tasks = [f"shop/test/medium/{i:03}" for i in range(len(outcomes))]
    usual: Mapping[str, Any] = {
        "worlds": [WORLD | {"tasks": tasks}], "split": "test", "prompt": "brief", "seed": 0, "options": {},
        "attempts": max(map(len, outcomes)), "agent": {"name": "tiny", "policy_digest": digest, "sampling": {}},
    }  # fmt: skip
    tries = {("AgentShop-v0", "{}", task): [bool(won) for won in each]
             for task, each in zip(tasks, outcomes, strict=True) if each}  # fmt: skip
    return Entrant(name, {**usual, **manifest}, tries)


A = entrant("a", [[1]] * 30 + [[0]] * 30)
B = entrant("b", [[1]] * 18 + [[0]] * 40 + [[1]] * 2)


def test_two_agents_once_a_task() -> None:
    """McNemar's p of the discordant counts; the sign is that of the first less the second."""
    found = compare([A, B])
    (pair,) = found.pairs
    assert (pair.first, pair.second, found.tasks, found.left_out) == ("a", "b", 60, 0)
    assert (pair.paired.only_first, pair.paired.only_second) == (12, 2)
    assert pair.paired.p == pair.p_holm == mcnemar(12, 2)
    assert pair.paired.difference.value == pytest.approx(10 / 60)


def test_two_agents_several_times_a_task() -> None:
    """The tasks' means are the unit, over as many attempts as both agents have."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 2, (40, 4)).tolist(), rng.integers(0, 2, (40, 2)).tolist()
    found = compare([entrant("a", first), entrant("b", second)])
    (pair,) = found.pairs
    differences = np.mean(first, 1, where=[[True, True, False, False]]) - np.mean(second, 1)
    assert pair.paired.difference == bootstrap_mean(differences) and pair.paired.p == sign_flips(differences)
    assert "the differences use the first attempts" in str(found)
    assert "the first attempts" not in str(compare([entrant("a", second), entrant("b", second)]))


def test_more_attempts_of_one_agent_make_no_difference() -> None:
    """1 and 16 attempts of equal agents at 3 % differ in at most 5 % of comparisons, and not in 14 %."""
    rng, claims = np.random.default_rng(1), 0
    for _ in range(200):
        first, second = ((rng.random((100, attempts)) < 0.03).astype(int).tolist() for attempts in (1, 16))
        claims += compare([entrant("a", first), entrant("b", second)]).pairs[0].paired.p <= 0.05
    assert claims <= 10


def test_several_agents_are_adjusted_by_holm() -> None:
    """Every two, in order; a p of three looks is dearer than of one."""
    found = compare([A, B, entrant("c", [[0]] * 60)])
    assert [(each.first, each.second) for each in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [each.p_holm for each in found.pairs] == holm([each.paired.p for each in found.pairs])
    assert "p (Holm)" in str(found) and "p (Holm)" not in str(compare([A, B]))


def test_rounds_of_two_runs_are_adjusted_by_holm() -> None:
    """The more rounds are looked at, the dearer is a p; one round has nothing to adjust."""

    def run(one: Entrant, *rounds: Entrant) -> Entrant:
        return replace(one, rounds={n: RoundOutcomes(f"{one.name}{n}", r.outcomes) for n, r in enumerate(rounds)})

    found = compare([run(A, A, A, B), run(B, B, A, A)])
    ps = [pair.paired.p for pair in found.by_round.values()]
    assert [pair.p_holm for pair in found.by_round.values()] == holm(ps) == [3 * ps[0], 1.0, 3 * ps[2]]
    assert found.as_dict()["rounds"][0]["p_holm"] == 3 * ps[0] and "| p | p (Holm) | better in |" in str(found)
    assert "p (Holm)" not in str(compare([run(A, A), run(B, B)]))


def test_tasks_without_a_try_are_left_out_of_all() -> None:
    """And counted; the success rates stay each agent's own."""
    found = compare([A, entrant("b", [[1]] * 29 + [[]] + [[0]] * 30)])
    assert (found.tasks, found.left_out, found.pairs[0].paired.only_first) == (59, 1, 0)
    assert "1 tasks are left out" in str(found)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"split": "valid"}, "split: test, not valid"),
        ({"prompt": "full"}, "prompt: brief, not full"),
        ({"seed": 3}, "seed: 0, not 3"),
        ({"worlds": [WORLD | {"tasks": ["x"]}]}, "AgentShop-v0's tasks: 0 in both, of 60 and 1"),
        ({"worlds": [{**A.manifest["worlds"][0], "max_steps": 9}]}, "AgentShop-v0's max_steps: 15, not 9"),
        ({"worlds": [{**A.manifest["worlds"][0], "version": 2}]}, "AgentShop-v0's version: 1, not 2"),
        (
            {"worlds": [{**A.manifest["worlds"][0], "kwargs": {"difficulty": "hard"}}]},
            "AgentShop-v0's kwargs.difficulty: not given, and hard in the other",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(other: dict[str, Any], said: str) -> None:
    """And it is said in what they differ; agents, sampling and tries may differ."""
    with pytest.raises(ConfigError) as error:
        compare([A, replace(B, manifest={**B.manifest, **other})])
    assert f"a and b cannot be compared: {said}" in str(error.value)


def test_all_unequal_evaluations_are_named_at_once() -> None:
    """Each with all of its differences from the first, so that one repair suffices."""
    one = replace(B, name="c", manifest={**B.manifest, "split": "valid", "seed": 7})
    other = replace(B, name="d", manifest={**B.manifest, "prompt": "full"})
    with pytest.raises(ConfigError) as error:
        compare([A, one, B, other])
    first, second = str(error.value).split(". ")
    assert first.startswith("a and c cannot be compared: split: ") and "; seed: 0, not 7" in first
    assert second == "a and d cannot be compared: prompt: brief, not full"


def test_one_is_no_comparison() -> None:
    """Nor is one with itself."""
    with pytest.raises(ConfigError, match="at least two evaluations"):
        compare([A])
    with pytest.raises(ConfigError, match="a is given twice"):
        compare([A, B, A])


def test_the_table_says_how_to_read_it() -> None:
    """Who decodes how, that tasks are few, and which test it is."""
    greedy = {"name": "tiny", "policy_digest": None, "sampling": {"temperature": 0.0}}
    one = entrant("a", [[1]] * 5, agent=greedy)
    other = entrant("b", [[0]] * 5, agent=greedy | {"sampling": {"temperature": 0.7}})
    said = str(compare([one, other]))
    assert "| a | tiny, greedy | 1 | 100.0 % [57, 100] |" in said and "tiny, sampled at temperature 0.7" in said
    assert "Only 5 tasks." in said and "different questions" in said and "McNemar" in said
    assert "| a − b | +100.0 [" in said and "] | 0.0625 | 5 : 0 |" in said
    assert said.startswith("AgentShop-v0 (5 tasks); test split, brief prompt, seed 0\n\n| evaluation |")


def test_a_world_that_is_not_installed_is_named_with_its_arguments() -> None:
    """Its evaluations may come from another machine."""
    worlds = [A.manifest["worlds"][0] | {"id": "AgentElsewhere-v0", "kwargs": {"difficulty": "hard"}}]
    one, other = (replace(each, manifest={**each.manifest, "worlds": worlds}) for each in (A, B))
    assert str(compare([one, other])).startswith("AgentElsewhere-v0, difficulty hard (")


def test_only_models_decode_differently() -> None:
    """A random agent or an expert does not decode; a shorter maximum of replies is not another temperature."""
    greedy = {"name": "tiny", "policy_digest": None, "sampling": {"temperature": 0.0, "max_new_tokens": 64}}
    model = entrant("a", [[1]] * 5, agent=greedy)
    rule = entrant("b", [[0]] * 5, agent={"name": "random", "policy_digest": None, "sampling": {}})
    assert "different" not in str(compare([model, rule]))
    shorter = {"temperature": 0.0, "max_new_tokens": 32}
    said = str(compare([model, entrant("b", [[0]] * 5, agent=greedy | {"sampling": shorter})]))
    assert "different maximum lengths" in said and "decode differently" not in said


def test_what_cannot_be_compared_says_what_can() -> None:
    """Another program's log has other tasks; of one agent, attempts take the place of several seeds."""
    log = replace(B, manifest={**B.manifest, "score": "success", "split": "", "prompt": ""})
    with pytest.raises(
        ConfigError, match="a and b cannot be compared: b is a log of another program, and a is an eval"
    ):
        compare([A, log])
    other = replace(B, manifest={**B.manifest, "seed": 1})
    with pytest.raises(
        ConfigError, match=r"seed: 0, not 1; to average over several episodes of a task, evaluate once w"
    ):
        compare([A, other])
    with pytest.raises(ConfigError, match=r"seed: 0, not 1$"):
        compare([A, replace(other, manifest={**other.manifest, "split": "valid"})])


def test_settings_that_differ_have_a_column() -> None:
    """What the models are sent; a setting that all share, or have by default, is not there."""
    shared = {"temperature": 0.0, "context": "error", "extra": {"stop": ["x"]}, "tools": False}
    agents = [
        {"name": "gpt", "policy_digest": None, "sampling": shared | sampling}
        for sampling in ({}, {"tools": True, "system_prompt": 'Say "go".' * 20}, {"few_shot": [{"role": "assistant"}]})
    ]
    plain, tools, examples = (entrant(name, [[1]] * 5, agent=a) for name, a in zip("abc", agents, strict=True))
    assert "settings that differ" not in str(compare([plain, replace(plain, name="other")]))
    table = str(compare([plain, tools, examples])).splitlines()
    assert table[2].endswith("| success [95 %] | settings that differ |") and "stop" not in "".join(table)
    assert table[4].endswith("| – |") and table[6].endswith("| few-shot (1 reply) |")
    assert '| tools, system prompt "Say ' in table[5] and table[5].endswith('…" (180 characters) |')
    template = replace(plain, name="d", manifest={**plain.manifest, "options": {"prompt_template": "Go: {rules}"}})
    assert '| prompt template "Go: {rules}" |' in str(compare([plain, template]))


def test_different_settings_have_different_cells() -> None:
    """A digest tells apart what would look the same: long texts that begin alike, and as many examples."""

    def cells(*samplings: Mapping[str, Any]) -> list[str]:
        agents = [{"name": "gpt", "policy_digest": None, "sampling": sampling} for sampling in samplings]
        entrants = [entrant(name, [[1]] * 5, agent=agent) for name, agent in zip("abc", agents, strict=False)]
        return [line.split(" | ")[-1] for line in str(compare(entrants)).splitlines()[4 : 4 + len(agents)]]

    for one, other in (
        ({"system_prompt": "x" * 70 + "a"}, {"system_prompt": "x" * 70 + "b"}),
        ({"few_shot": [{"role": "assistant", "content": "a"}]}, {"few_shot": [{"role": "assistant", "content": "b"}]}),
    ):
        first, second, again = cells(one, other, one)
        assert first == again != second and "(digest " in first and "(digest " in second
    assert "digest" not in "".join(cells({"system_prompt": "a"}, {"system_prompt": "b"}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("y" * 60, f'system prompt "{"y" * 60}"'),
        ('"' * 61, 'system prompt "' + r"\"" * 60 + '…" (61 characters)'),
        ("\n" * 70, 'system prompt "' + r"\n" * 60 + '…" (70 characters)'),
        ({"stop": ["z" * 80]}, 'system prompt {"stop": ["' + "z" * 49 + "… (94 characters)"),
        (0.5, "system prompt 0.5"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_long_setting_is_cut_before_it_is_quoted(value: object, text: str) -> None:
    """So no escape is cut in two; the count is that of the value, and only texts have quotation marks."""
    assert format_setting("system_prompt", value) == text


def test_latex_compiles_whatever_a_folder_is_called() -> None:
    """Signs that mean something there are escaped; every row has as many cells as the head."""
    said = compare([replace(A, name="evals/a_1&2%"), replace(B, name="b~^\\{}#$")]).latex()
    assert r"evals/a\_1\&2\%" in said and r"b\textasciitilde{}\textasciicircum{}\textbackslash{}\{\}\#\$" in said
    rows = [line for line in said.splitlines() if line.endswith(r"\\")]
    assert {row.replace(r"\&", "").count("&") for row in rows} == {3, 4} and said.count(r"\begin{tabular}") == 2


def test_a_name_leaves_no_comment_and_no_cell() -> None:
    """A manifest of a stranger names worlds and splits, and LaTeX may read files and run programs."""
    manifest = {**A.manifest, "split": "test\n\\input{/etc/passwd}\r\\write18{id}\u2028\\x"}
    said = compare([replace(A, manifest=manifest), replace(B, manifest=manifest)]).latex()
    assert all(line.startswith("% ") for line in said.splitlines() if "input{" in line or "write18" in line), said
    said = str(compare([replace(A, name="a\n| b | 100 % |", manifest=manifest), replace(B, manifest=manifest)]))
    assert "| a \\| b \\| 100 % \\| |" in said and not any(line.startswith("| b | 100") for line in said.splitlines())


def test_latex_has_the_rules_of_booktabs() -> None:
    """Three in each table, around its head and at its end."""
    for table in compare([A, B]).latex().split(r"\begin{tabular}")[1:]:
        lines = table.splitlines()
        rules = [number for number, line in enumerate(lines) if line.endswith("rule")]
        assert rules == [1, 3, lines.index(r"\end{tabular}") - 1] and r"\hline" not in table


def test_latex_aligns_texts_to_the_left() -> None:
    """Names of evaluations and agents; numbers, intervals, p-values and dashes to the right."""
    used = Resources.of({"tokens": 1234.5, "spent": {"cost": 0.0126}})
    said = compare([replace(A, resources=used), replace(B, resources=Resources.of({"tokens": 30.0}))]).latex()
    assert re.findall(r"begin{tabular}{(\w+)}", said) == ["llrr", "lrrrr", "lrrr"]


def test_what_the_agents_used_is_a_table() -> None:
    """With the columns in which an agent has a value; without any there is no such table."""
    paid = Resources.of({"tokens": 1234.5, "spent": {"prompt_tokens": 60000, "cost": 0.0126}})
    paid = replace(paid, latency_median=1.239, latency_p95=3.0)
    said = str(compare([replace(A, resources=paid), replace(B, resources=Resources.of({"tokens": 30.0}))]))
    assert (
        "| evaluation | tokens per episode | prompt tokens in all | cost in all | cost per success "
        "| seconds per reply, median | 95th percentile |"
    ) in said
    assert "| a | 1,234.5 | 60,000 | 0.0126 | 0.00042 | 1.24 | 3.00 |\n| b | 30.0 | – | – | – | – | – |" in said
    refused = [Resources.of({"refused": number, "spent": {"cost": 1.0}}) for number in (0, 7)]
    table = str(compare([replace(A, resources=refused[0]), replace(B, resources=refused[1])]))
    assert "| cost per success | refused |" in table and " | 0 |\n| b | 1 | 0.05 | 7 |" in table
    assert "refused" not in str(compare([replace(A, resources=refused[0]), B]))
    free = compare([replace(A, resources=Resources.of({"tokens": None})), B])
    assert "tokens" not in str(free) and free.as_dict()["agents"][0]["resources"]["cost"] is None


def runs(name: str, rates: Sequence[float]) -> Algorithm:
    """An algorithm with a run of twenty tasks a rate."""
    made = [entrant(f"{name}/{i}", [[1]] * round(20 * r) + [[0]] * (20 - round(20 * r)), digest=f"{name}{i}")
            for i, r in enumerate(rates)]  # fmt: skip
    return Algorithm(name, made)


def test_algorithms_are_compared_by_their_seeds() -> None:
    """Interquartile mean over seeds and the chance that a run beats another; under five seeds it says so."""
    ppo, bc = runs("ppo", [0.5, 0.6, 0.7, 0.65, 0.55]), runs("bc", [0.4, 0.5, 0.45, 0.5, 0.35])
    found = compare_algorithms([ppo, bc])
    assert found.means[0] == runs_mean([[0.5], [0.6], [0.7], [0.65], [0.55]]) and found.means[0].n == 5
    assert found.pairs[0].probability.value == pytest.approx(24 / 25)  # 0.5 equals two of five
    said = str(found)
    assert "| ppo | 5 | 0.600 [" in said and "| ppo > bc | 0.960 [" in said and "Fewer than" not in said
    assert "Fewer than 5 training seeds" in str(compare_algorithms([runs("a", [0.1, 0.2]), bc]))
    assert found.as_dict()["algorithms"][1]["scores"] == [[0.4], [0.5], [0.45], [0.5], [0.35]]


def test_a_run_twice_is_no_second_seed() -> None:
    """Also where nothing is known of its weights, as of an endpoint's."""
    run = replace(runs("x", [0.5]).runs[0], manifest=entrant("x", [[1]] * 20, digest=None).manifest)
    with pytest.raises(ConfigError, match="x/0 is given twice"):
        compare_algorithms([Algorithm("x", [run, run]), runs("bc", [0.4, 0.5])])


def test_a_checkpoint_twice_is_no_second_seed() -> None:
    """Equal weights are refused, and so are runs that were asked other questions."""
    one = runs("ppo", [0.5, 0.6])
    twice = Algorithm("x", [one.runs[0], replace(one.runs[0], name="copy")])
    with pytest.raises(ConfigError, match="ppo/0 and copy have the same weights"):
        compare_algorithms([twice, runs("bc", [0.1, 0.2])])
    odd = Algorithm("x", [replace(one.runs[0], manifest={**one.runs[0].manifest, "seed": 2})])
    with pytest.raises(ConfigError, match="cannot be compared: seed"):
        compare_algorithms([one, odd])
