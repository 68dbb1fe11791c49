from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from agentgym_envs.shop.catalogue import Product, load_catalogue
from agentgym_envs.shop.react import product_line
from agentgym_envs.shop.tasks import split_of
from agentgym_py.env.actions import parse_reply
from agentgym_py.rng import Rng

FOLDER = Path(__file__).resolve().parents[2] / "datasets"
Turns = list[tuple[str, str]]


@cache
def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # by this name the scripts import each other
    spec.loader.exec_module(module)
    return module


def attempts() -> ModuleType:
    script("tiny_shop")
    return script("tiny_attempts")


def documents(number: int) -> list[Turns]:
    return list(islice(script("tiny_shop").shop_documents(3), number))


def words_of(*texts: object) -> set[str]:
    """All words in whatever is given."""
    return set(re.findall("[a-z]{2,}", " ".join(map(repr, texts)).lower()))


def shown(products: Iterable[Product]) -> set[str]:
    """How products look in one line, without the number."""
    return {product_line(product).partition(" ")[2] for product in products}


def test_nothing_of_a_held_out_task_is_read() -> None:
    """No exercise has a word that only held-out products have; no walk opens one of these, but results may list it."""
    module = script("tiny_shop")
    held_out = [p for p in load_catalogue().products if split_of(p) != "train"]
    secret = words_of(*held_out) - words_of(*module.load_library().products)
    assert len(secret) > 10
    opened = shown(held_out) - shown(module.load_library().products)
    for number, document in enumerate(documents(280)):
        if number % 5 < 2:  # a walk
            pages = [said.split("\n")[0] for said, _ in document if not said.startswith("Page")]
            assert not any(page.partition(" ")[2] in opened for page in pages)
        else:
            assert not secret & words_of(document)


def test_walks_are_chance() -> None:
    """Walks are searches and clicks in the one form, seldom buy, and search for the request in half of the cases."""
    walks = [document for number, document in enumerate(documents(280)) if number % 5 < 2]
    replies = [turn for walk in walks for turn in walk if turn[1] and not turn[0].endswith("?")]
    searches = [parse_reply(walk[0][1]).action[7:-1] in walk[0][0] for walk in walks]
    assert 0.4 < sum(searches) / len(searches) < 0.75  # a kind of thing at random is seldom the one wanted
    actions = [parse_reply(answer).action for _, answer in replies]
    assert len(actions) > 200 and all(re.fullmatch(r"(search|click)\[.+\]", action) for action in actions)
    bought = sum(action == "click[buy now]" for action in actions)
    assert bought < 0.1 * len(actions)


def test_the_answers_of_exercises_are_right() -> None:
    """Questions about the request are answered from it, and pages judged by what they offer and what is chosen."""
    module = script("tiny_shop")
    books, rng = module.load_library(), Rng("test", 1)
    asked: Counter[str] = Counter()
    for each in range(300):
        turns = module.exercise(rng, books, 5 * (each % 2))
        request = turns[0][0].split("\n")[0]
        parts = [re.match("(?:.* with )?([^:]+): (.*)", part) for part in request.split(", and ")[:-1]]
        wanted = {part[1]: part[2] for part in parts if part}
        assert wanted
        chosen: dict[str, str] = {}
        for said, answer in turns:
            question = said.split("\n")[-1]
            picked = re.fullmatch("(.+): (.+) is selected.", said)
            chosen = chosen | {picked[1]: picked[2]} if picked else {}
            offered = {line.partition(": ")[0]: line.partition(": ")[2].split(" | ") for line in said.split("\n")}
            there = {v: v in (chosen.values() if chosen else offered.get(name, ())) for name, v in wanted.items()}
            if question == "What is wanted?":
                assert request.startswith(f"Find me {answer} with ")
            elif question == "Up to what price?":
                assert f"lower than {answer} dollars" in request
            elif found := re.match(r"Which (.+)\?", question):
                question = "Which?"
                assert answer == wanted[found[1]]
            elif found := re.match(r"Thought: .*\? .* Now (.+)\.\nAction: click\[(.+)\]", answer):
                question = "chosen?" if chosen else "offered?"
                assert found[1] == found[2]
                assert answer.startswith(
                    f"Thought: {module.checklist(list(there.items()), found[1], choosing=bool(chosen))}\n"
                )
            asked[question] += 1
    assert all(asked[kind] > 50 for kind in ("What is wanted?", "Up to what price?", "Which?"))
    assert asked["offered?"] > 500 and asked["chosen?"] > 500


def test_people_at_home_pursue_their_own_goals() -> None:
    """Three of four say what they are after, which is not what they were told; the others give no reason."""
    module, rng = attempts(), Rng("test", 2)
    envs, say, told = module.make_envs(), 0, 0
    for _ in range(160):
        turns = module.household_attempt(rng, envs)
        assert turns[-1][1] == "" and all(reply for _, reply in turns[:-1])
        replies = " ".join(reply for _, reply in turns)
        sought = set(re.findall(r"have not found a (\S+) yet", replies)) - {"desklamp"}
        reasons = bool(sought) or "I want to" in replies
        aims = [number for number, (_, reply) in enumerate(turns) if "Thought: I am after " in reply]
        assert aims[:1] == [0] * reasons  # at once, so that what follows is for an aim that was said
        say += reasons
        told += bool(sought & set(re.findall(r"\w+", turns[0][0].rpartition("Your task is to: ")[2])))
    assert 0.6 * 160 < say < 0.85 * 160
    assert told < 0.1 * 160  # another task may happen to ask for the same


def test_questions_about_rooms_are_answered_from_their_pages() -> None:
    """What is there is named as the page names it, whatever it is called; what is not is `none`."""
    module, rng = attempts(), Rng("test", 3)
    envs, asked = module.make_envs(), Counter[str]()
    for _ in range(150):
        page, task, visited = "", "", set[str]()
        for said, answer in module.room_questions(rng, envs):
            *above, question = said.split("\n")
            if above and "Your task is to: " in said:
                task = above[-1]
            elif above and "already" not in above[-1]:  # else the page before is meant
                page = above[-1]
                visited.add(re.findall(r"(?:arrive at|The) (\w+ \d+)", page)[0])
            if found := re.fullmatch(r"Which (\w+)\?", question):
                there = re.findall(rf"\b{found[1]} \d+", page.partition("you see")[2])
                assert answer == (there[0] if there else "none")
                asked["there" if there else "none"] += 1
            elif found := re.fullmatch(r"Were you at (\w+ \d+)\?", question):
                assert answer == ("yes" if found[1] in visited else "no")
                asked[answer] += 1
            elif question in ("What is to be found?", "Where is it brought?"):
                assert re.search(rf"\b{answer}\b", task)
            elif question == "How many?":
                assert (answer == "two") == (" two " in task)
    assert all(asked[kind] > 20 for kind in ("there", "none", "yes", "no")), asked


def test_attempts_are_at_training_tasks() -> None:
    """Whatever is reset for a document belongs to split train."""
    module, rng = attempts(), Rng("test", 4)
    envs = module.make_envs()
    all_envs = [env for group in (envs.homes, envs.pursued, *envs.other) for env in group.values()]
    for _ in range(60):
        for make in (module.household_attempt, module.room_questions, module.other_attempt):
            assert make(rng, envs)
    for env in all_envs:
        assert env.current_task.split == "train"


def test_made_up_names_stand_for_the_old_ones_everywhere() -> None:
    """A document under other names is the same document."""
    module = attempts()
    turns = [("You see a Mug 1, and a mug 2.", "take mug 1 from desk 1"), ("mugs, desk 1", "")]
    (said, reply), (more, _) = module._with_new_names(Rng(5), turns, {"mug", "desk"})
    mug, desk = re.fullmatch(r"take (\w+) 1 from (\w+) 1", reply).groups()  # type: ignore[union-attr]
    assert mug != desk and not {"mug", "desk"} & {mug, desk}
    assert said == f"You see a {mug.capitalize()} 1, and a {mug} 2." and more == f"mugs, {desk} 1"


def test_the_card_speaks_of_the_base_that_ships() -> None:
    """The digest on the card is that of the weights."""
    pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    card = (FOLDER / "agentgym_data" / "tiny" / "CARD.md").read_text(encoding="utf-8")
    assert f"`{Policy.load('tiny').digest()}`" in card


def test_drills_repeat() -> None:
    """A row repeats its beginning; labels stand on the repetition only."""
    torch = pytest.importorskip("torch")
    attempts()
    script("tiny_documents")
    ids, labels = script("make_tiny_base").repeats(torch.Generator().manual_seed(0), 100, 6, 64, 8, 32)
    for row, label in zip(ids.tolist(), labels.tolist(), strict=True):
        start = next(i for i, value in enumerate(label) if value != -100)
        period = start - 1
        assert 8 <= period <= 32 and label[start:] == row[start:]
        assert all(row[i] == row[i - period] for i in range(period, 64))


_STEPS = """
import os, sys
import torch, torch.distributed as dist
import make_tiny_base as base
from agentgym_py.policy.policy import Policy

dist.init_process_group("gloo")
policy = Policy.load("tiny")
generator = torch.Generator().manual_seed(0)
batches = [base.repeats(generator, len(policy.tokenizer), 4, 48, 8, 32) for _ in range(3)]
base.train(policy, (each for each in batches), 3, 1e-3, 1e-4)
if os.environ["RANK"] == "0":
    torch.save(policy.model.state_dict(), sys.argv[1])
"""


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    """A batch shared by two processes changes the weights as it does in one."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    (tmp_path / "steps.py").write_text(_STEPS, encoding="utf-8")
    weights = []
    for processes in (1, 2):
        out = tmp_path / f"{processes}.pt"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        path = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
        subprocess.run(
            [*command, "steps.py", str(out)], cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": path}
        )
        weights.append(torch.load(out, weights_only=True))
    start = load_file(FOLDER / "agentgym_data" / "tiny" / "model.safetensors")
    one, two = (torch.cat([(after[name] - start[name]).flatten() for name in start]) for after in weights)
    assert one.norm() > 0.01 and torch.nn.functional.cosine_similarity(one, two, dim=0) > 0.99
