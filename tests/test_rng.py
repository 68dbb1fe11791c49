from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from agentgym_py.rng import Rng, seed_of, stable_order


def test_the_stream_is_splitmix64() -> None:
    """The reference values of the published algorithm for the state 1234567."""
    rng = Rng()
    rng.state = 1234567
    assert [rng.bits() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_golden_values() -> None:
    """These stay forever: tasks of published results are drawn with them."""
    assert seed_of("shop", "test", 17) == 1545444317652358610
    rng = Rng("golden", 1)
    assert [rng.bits() for _ in range(4)] == [
        11205547741425774778, 5961603850060831849, 14433439291714754007, 5286646187338260455
    ]  # fmt: skip
    rng = Rng(0)
    assert [rng.below(10) for _ in range(10)] == [2, 7, 9, 4, 6, 4, 9, 9, 2, 7]
    assert rng.uniform() == 0.21058757862211197
    assert rng.sample("abcdef", 4) == ["b", "f", "e", "c"]
    assert rng.choice("xyz") == "y"


def test_below_scales_the_bits() -> None:
    """One step of the stream, scaled to the range, however large that is."""
    for n in (1, 2, 7, 1000, 1 << 40, (1 << 64) - 1, 1 << 70):
        one, other = Rng("scaled", n), Rng("scaled", n)
        assert [one.below(n) for _ in range(50)] == [(other.bits() * n) >> 64 for _ in range(50)]
        assert one.state == other.state


def test_seeds_do_not_depend_on_the_process() -> None:
    """Another process, with another hash seed, draws the same."""
    code = "from agentgym_py.rng import Rng; print(Rng('a', 1, None, 2.5).bits())"
    command = [sys.executable, "-c", code]
    result = {
        subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert result == {f"{Rng('a', 1, None, 2.5).bits()}\n".encode()}


def test_the_state_is_all_there_is() -> None:
    """A generator given another's state continues as that one does."""
    one, other = Rng("a"), Rng("b")
    one.bits()
    other.state = one.state
    assert [one.uniform() for _ in range(5)] == [other.uniform() for _ in range(5)]


def test_draws_are_uniform() -> None:
    """Chi-squared of 60,000 draws over 6 and over 100 values lies where it does 999 times of 1,000."""
    rng = Rng("uniform")
    for n, low, high in ((6, 0.2, 20.5), (100, 60.0, 149.0)):
        counts = Counter(rng.below(n) for _ in range(60_000))
        expected = 60_000 / n
        chi = sum((counts[i] - expected) ** 2 / expected for i in range(n))
        assert low < chi < high and set(counts) == set(range(n))
    floats = [rng.uniform() for _ in range(20_000)]
    assert min(floats) >= 0 and max(floats) < 1 and abs(sum(floats) / 20_000 - 0.5) < 0.01


def test_samples_are_fair_and_without_repeats() -> None:
    """Every ordered pair of three items comes equally often; the input is left alone."""
    rng, items = Rng("sample"), ["a", "b", "c"]
    counts = Counter(tuple(rng.sample(items, 2)) for _ in range(12_000))
    assert len(counts) == 6 and all(abs(number - 2000) < 200 for number in counts.values())
    assert items == ["a", "b", "c"] and sorted(rng.sample(items, 3)) == items and rng.sample(items, 0) == []


def test_a_sample_of_many_items_copies_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the sample of a copy, and the generator goes the same way."""
    for seed in range(300):
        items = [f"item {number % 5}" for number in range(seed % 23)]
        number = 7 * seed % (len(items) + 1)
        one, other = Rng(seed), Rng(seed)
        expected = one.sample(items, number)
        with monkeypatch.context() as patch:
            patch.setattr("agentgym_py.rng._LARGE", -1)
            assert other.sample(items, number) == expected and other.state == one.state
    many = Rng(0).sample(range(1 << 40), 50)
    assert len(set(many)) == 50 and max(many) > 1 << 39
    with pytest.raises(ValueError, match="needs"):
        Rng().sample(range(20_000), 20_001)


def test_neighbouring_seeds_are_unrelated() -> None:
    """Of the bits of the first draws of seeds 0, 1, 2, ... about half differ from one seed to the next."""
    draws = [Rng("task", i).bits() for i in range(500)]
    differ = [(a ^ b).bit_count() for a, b in pairwise(draws)]
    assert abs(sum(differ) / len(differ) - 32) < 1 and len(set(draws)) == 500


def test_impossible_draws_raise() -> None:
    """Nothing to choose from, more than there is, or a negative number."""
    for call in (
        lambda: Rng().below(0),
        lambda: Rng().choice([]),
        lambda: Rng().sample([1], 2),
        lambda: Rng().sample([1, 2], -1),
    ):
        with pytest.raises(ValueError, match="needs"):
            call()


def test_any_text_is_a_seed() -> None:
    """Lone surrogates, which a broken reply may bring along, included."""
    assert Rng("\ud800").bits() != Rng("\ud801").bits()


def test_a_stable_order_is_uniform_and_keeps_when_keys_come_and_go() -> None:
    """Equal keys count as several; each of six orders of three keys comes as often; the seed draws another one."""
    keys = [*"abcdefgh", "c", "c"]
    order = stable_order(keys, 3)
    assert sorted(order) == list(range(10)) and order == stable_order(keys, 3) != stable_order(keys, 4)
    fewer = [key for key in keys if key != "e"]
    assert [fewer[i] for i in stable_order(fewer, 3)] == [keys[i] for i in order if keys[i] != "e"]
    found = Counter(tuple(stable_order("xyz", seed)) for seed in range(6000))
    assert len(found) == 6 and all(abs(number - 1000) < 150 for number in found.values())
