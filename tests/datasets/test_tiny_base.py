from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scripts import load_script

from agentgym_envs.shop.catalogue import Product, load_catalogue
from agentgym_envs.shop.react import product_line
from agentgym_envs.shop.tasks import split_of
from agentgym_envs.wordle.solver import word_set
from agentgym_py.env.actions import parse_reply
from agentgym_py.rng import Rng

FOLDER = Path(__file__).resolve().parents[2] / "datasets"
Turns = list[tuple[str, str]]


@cache
def script(name: str) -> Any:
    return load_script(f"datasets/{name}.py", name)  # by this name the scripts import each other


def household() -> Any:
    worlds()
    return script("tiny_household")


def worlds() -> Any:
    script("tiny_shop")
    return script("tiny_worlds")


def maker() -> Any:
    household()
    script("tiny_documents")
    script("tiny_training")
    return script("make_tiny_base")


@cache
def walks() -> list[Turns]:
    shop, rng = script("tiny_shop"), Rng("walks", 3)
    library, envs = shop.load_library(), shop.make_shops()
    return [shop.walk(rng, library, envs) for _ in range(112)]


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
    for document in walks():
        pages = [said.split("\n")[0] for said, _ in document if not said.startswith("Page")]
        assert not any(page.partition(" ")[2] in opened for page in pages)
    library, rng = module.load_library(), Rng("exercises", 3)
    for number in range(168):
        assert not secret & words_of(module.exercise(rng, library, number % 3 * 3))


def test_walks_are_chance() -> None:
    """Walks are searches and clicks in the one form, seldom buy, and search for the request in half of the cases."""
    replies = [turn for walk in walks() for turn in walk if turn[1] and not turn[0].endswith("?")]
    searches = [parse_reply(walk[0][1]).action[7:-1] in walk[0][0] for walk in walks()]
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
    module, rng = household(), Rng("test", 2)
    envs, say, told = module.make_homes(), 0, 0
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
    module, rng = household(), Rng("test", 3)
    envs, asked = module.make_homes(), Counter[str]()
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


def test_every_document_is_of_training_tasks() -> None:
    """Whatever is reset for a document belongs to split train."""
    household()
    documents = script("tiny_documents").Documents()
    for number in range(150):
        assert documents.short(Rng("short", number))
        assert documents.long(Rng("long", number))
        assert documents.aimless(Rng("aimless", number))
    envs = [*documents.homes.homes.values(), *documents.homes.pursued.values(), *documents.worlds.values()]
    tasks = [env.current_task for env in envs]
    assert {task.split for task in tasks if task} == {"train"} and sum(task is not None for task in tasks) > 20


def test_a_document_depends_on_its_generator_alone() -> None:
    """So a resumed training reads the batches of one that was never stopped."""
    household()
    documents = script("tiny_documents").Documents()
    before = [documents.long(Rng("document", number)) for number in range(40)]
    assert [documents.long(Rng("document", number)) for number in reversed(range(40))] == before[::-1]


def test_another_goal_stands_in_the_request_alone() -> None:
    """In the maze and in TextCraft a request can name another thing; the rest of the page stays."""
    module = worlds()
    envs = module.make_envs()
    for number in range(30):
        rng = Rng("aims", number)
        for name, attribute in (("maze", "metal"), ("textcraft", "target")):
            env = envs[name, "easy"]
            first = module.reset(rng, env)
            request, goal = env.current_task.instruction, getattr(env.puzzle, attribute)
            before, after = first.split(request)
            text = module._with_another_goal(rng, env, first)
            assert text.startswith(before) and text.endswith(after)
            other = text[len(before) : len(text) - len(after)].lower()
            assert other != request.lower() and not re.search(rf"\b{goal}\b", other)
    env = envs["sql", "easy"]
    assert module._with_another_goal(rng, env, module.reset(rng, env)).startswith(env.current_task.instruction)


def test_answers_of_the_other_worlds_are_right() -> None:
    """Recipes are read off the page, sums are right, and words have the letters that the hints ask for."""
    module = worlds()
    envs = module.make_envs()
    for number in range(20):
        page = ""
        for question, answer in module.recipe_questions(Rng("recipes", number), envs):
            page = page or question
            item = re.search(r"What does (.+) take\?", question)
            line = item and re.search(rf"craft \d+ {item[1]} using (.+)", page)
            assert answer == (line[1] if line else "raw")
        for question, answer in module.sum_questions(Rng("sums", number), envs):
            a, sign, b = re.match(r"(\d+) (\+|times) (\d+)\?", question).groups()  # type: ignore[union-attr]
            assert int(answer) == (int(a) + int(b) if sign == "+" else int(a) * int(b))
        for question, answers in module.word_questions(Rng("words", number), envs):
            hints = re.match(r"([a-z. ]{9})(?:, with ([a-z ]+))?(?:, not ([a-z ]+))?$", question)
            assert hints
            for answer in answers.split(", "):
                shown = zip(hints[1].split(), answer.split(), strict=True)
                assert all(known in (".", letter) for known, letter in shown)
                assert set((hints[2] or "").split()) <= set(answer) and not set((hints[3] or "").split()) & set(answer)
                assert answer.replace(" ", "") in word_set()


def test_several_questions_share_a_database() -> None:
    """Every statement names tables and columns of the page, looks have a result, and the questions differ."""
    module = worlds()
    envs, looks = module.make_envs(), 0
    for number in range(20):
        turns = module.questions_to_database(Rng("database", number), envs)
        shown = set(re.findall(r"\w+", turns[0][0].rpartition("Tables: ")[2]))
        assert len({question.split("\n")[0] for question, _ in turns}) > 3
        for place, (_, answer) in enumerate(turns):
            statement = re.search(r"\[SELECT (?:COUNT\(\*\)|AVG\((\w+)\)|DISTINCT (\w+)|(\w+)) FROM (\w+)", answer)
            assert statement, answer
            assert set(filter(None, statement.groups())) <= shown
            if "Action: query[" in answer:
                looks += 1
                assert turns[place + 1][0].startswith(f"{statement[2]}\n")
    assert looks > 5


def test_several_requests_share_a_list_of_tools() -> None:
    """Every call is of a listed tool; the answer to each request with a call stands in the observation before.

    Or it is the number of rows there.
    """
    module = worlds()
    envs = module.make_envs()
    for number in range(8):
        turns = module.requests_to_tools(Rng("requests", number), envs)
        listed = re.findall(r"^(\w+)\(", turns[0][0], re.MULTILINE)
        actions = [parse_reply(answer) for _, answer in turns]
        assert {reply.action for reply in actions} <= set(listed)
        ends = [place for place, reply in enumerate(actions) if reply.action == "finish"]
        assert len(ends) == 5 and ends[-1] == len(turns) - 1
        for place in ends:
            answer = re.search(r'"answer": "(.*)"}', str(actions[place].action_input))
            observation = turns[place][0]
            found = answer and (answer[1] in observation or answer[1] == str(observation.count("{")))
            assert found or place == 0 or actions[place - 1].action == "finish"


def test_several_requests_follow_each_other() -> None:
    """Each request to a list of tasks has a reply of its own, which repeats what the request names."""
    module = worlds()
    envs = module.make_envs()
    repeated = 0
    for number in range(10):
        turns = module.requests_to_lists(Rng("lists", number), envs)
        assert len({request for request, _ in turns}) == 6
        for request, answer in turns:
            named = set(re.findall(r"\w{4,}", request.rpartition("\n")[2].casefold()))
            repeated += bool(named & set(re.findall(r"\w{4,}", answer.casefold())))
    assert repeated > 45


def test_several_goals_share_their_recipes() -> None:
    """The first reply to each goal gets a raw thing of the page, and its thought begins with the goal's recipe."""
    module = worlds()
    envs = module.make_envs()
    for number in range(20):
        turns = module.goals_of_recipes(Rng("goals", number), envs)
        page = turns[0][0]
        assert len(turns) > 3
        for question, answer in turns:
            item, makes, needs = re.match(r"Thought: (.+?) makes (\d+): (.+?);", answer).groups()  # type: ignore[union-attr]
            assert f"craft {makes} {item} using {needs}\n" in page
            assert re.search(rf"\b{item}\b", question.rpartition("Goal: ")[2])
            assert re.search(r"Action: get \d+ (.+)", answer)


def test_a_base_may_read_a_few_worlds_only() -> None:
    """Long and aimless documents are then of these worlds, and of each."""
    envs = worlds().make_envs(["maze", "wordle"])
    documents = script("tiny_documents").Documents(["maze", "wordle"])
    assert {name for name, _ in envs} == {name for name, _ in documents.worlds} == {"maze", "wordle"}
    for draw in (documents.long, documents.aimless):
        texts = [draw(Rng("few", number))[0][0] for number in range(40)]
        mazes = sum("door" in text or "key" in text for text in texts)
        assert 0 < mazes < 40
    for words in ([], ["--short", "0"]):
        with pytest.raises(SystemExit):
            maker().main(["--state", "unused", "--worlds", "maze", *words])


def test_detours_are_not_learned_from() -> None:
    """The labels of a document leave out replies that chance chose, and no others."""
    pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    module, policy = maker(), Policy.load("tiny")
    turns = [("page", "go"), ("page", sys.modules["tiny_worlds"].Unlearned("wander")), ("end", "")]
    ids, labels = module.encode_turns(turns, policy)
    learned = [token for token, label in zip(ids, labels, strict=True) if label != -100]
    assert learned == policy.chat.reply("go")
    attempts = [module.Documents().long(Rng("detours", number)) for number in range(60)]
    replies = [reply for turns in attempts for _, reply in turns if reply]
    assert 0.01 < sum(isinstance(reply, sys.modules["tiny_worlds"].Unlearned) for reply in replies) / len(replies) < 0.3


def begins(env: Any, first: str) -> bool:
    """Whether a document begins with the current task of a world."""
    return env.reset(options={"task": env.current_task.id})[0] in first


def test_aimless_agents_think_as_the_expert_and_act_at_random() -> None:
    """Each thought is that of the fair expert's action, which the agent seldom takes; it takes all without thoughts."""
    module = worlds()
    envs, agreed, steps = module.make_envs(), Counter[bool](), Counter[bool]()
    for number in range(80):
        turns = module.aimless_attempt(Rng("aimless", number), envs)
        env = next(env for env in envs.values() if env.current_task and begins(env, turns[0][0]))
        replies = [parse_reply(reply) for _, reply in turns if reply and not isinstance(reply, module.Unlearned)]
        thinks = any(reply.thought for reply in replies)
        env.reset(options={"task": int(env.current_task.id.rpartition("/")[2]), "split": "train"})
        for _, reply in turns[:-1]:
            action = env.fair_expert() or next(iter(env.expert()), None)
            assert action is not None
            if not isinstance(reply, module.Unlearned):
                steps[thinks] += 1
                said, expert = env.parse(reply), env.parse(action)
                agreed[thinks] += (said.action, said.action_input) == (expert.action, expert.action_input)
                assert parse_reply(reply).thought in (env.expert_thought(action), "")
            env.step(reply)
    assert agreed[False] == steps[False] > 20
    assert agreed[True] < 0.4 * steps[True] > 20


def test_made_up_names_stand_for_the_old_ones_everywhere() -> None:
    """A document under other names is the same document."""
    module = household()
    turns = [("You see a Mug 1, and a mug 2.", "take mug 1 from desk 1"), ("mugs, desk 1", "")]
    (said, reply), (more, _) = module._with_new_names(Rng(5), turns, {"mug", "desk"})
    mug, desk = re.fullmatch(r"take (\w+) 1 from (\w+) 1", reply).groups()  # type: ignore[union-attr]
    assert mug != desk and not {"mug", "desk"} & {mug, desk}
    assert said == f"You see a {mug.capitalize()} 1, and a {mug} 2." and more == f"mugs, {desk} 1"


@pytest.mark.parametrize("name", ["tiny", "tiny-worlds", "tiny-data"])
def test_the_card_speaks_of_the_base_that_ships(name: str) -> None:
    """The digest on the card is that of the weights."""
    pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    card = (FOLDER / "agentgym_data" / name / "CARD.md").read_text(encoding="utf-8")
    assert f"`{Policy.load(name).digest()}`" in card


def test_drills_repeat() -> None:
    """A row repeats its beginning; labels stand on the repetition only."""
    torch = pytest.importorskip("torch")
    ids, labels = maker().repeats(torch.Generator().manual_seed(0), 100, 6, 64, 8, 32)
    for row, label in zip(ids.tolist(), labels.tolist(), strict=True):
        start = next(i for i, value in enumerate(label) if value != -100)
        period = start - 1
        assert 8 <= period <= 32 and label[start:] == row[start:]
        assert all(row[i] == row[i - period] for i in range(period, 64))


def test_lookups_ask_for_what_their_tables_say() -> None:
    """The value that is learned after a name stands beside that name in the table; nothing else has labels."""
    pytest.importorskip("torch")
    module, in_front = maker(), Counter[bool]()
    for number in range(30):
        ids, labels = module._table(Rng("table", number), 200)
        end = ids[-1]
        parts = [part.split() for part in f"{' '.join(map(str, ids))} ".replace(f" {end} ", " | ").split(" | ")[:-1]]
        entries, asked = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        first = next(place for place, label in enumerate(labels) if label != -100)
        mark = str(ids[first - 1])
        in_front[mark not in entries[0]] += 1
        for question in asked:
            name, value = question[: question.index(mark)], question[question.index(mark) + 1 :]
            assert [*value, *name] in entries or question in entries
        assert [label for label in labels if label != -100] == [
            int(token) for question in asked for token in (*question[question.index(mark) + 1 :], end)
        ]
    assert min(in_front.values()) > 5
    ids, labels = module.lookups(Rng(5), 200, 3, 300)
    assert ids.shape == labels.shape == (3, 300)
    assert all(
        label in (-100, token) for token, label in zip(ids.flatten().tolist(), labels.flatten().tolist(), strict=True)
    )


def test_spellings_repeat_the_words_in_another_style() -> None:
    """The learned text has the words of the text before it, in order, among them words that follow no space."""
    pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    module, tokenizer = maker(), Policy.load("tiny-worlds").tokenizer
    ids, labels = (part.tolist() for part in module.spellings(Rng(3), tokenizer, 6, 400))
    respelled = 0
    for row, learned in zip(ids, labels, strict=True):
        assert all(label in (-100, token) for token, label in zip(row, learned, strict=True))
        starts = [n for n in range(1, 400) if learned[n] >= 0 > learned[n - 1]]
        ends = [0, *(n for n in range(1, 400) if learned[n] < 0 <= learned[n - 1])]
        for start, begin, end in zip(starts, ends, ends[1:], strict=False):
            shown, answer = tokenizer.decode(row[begin : start - 1]), tokenizer.decode(row[start - 1 : end])
            words = [
                [word for word in re.findall("[A-Za-z]+", text) if word not in ("and", "click")]
                for text in (shown, answer)
            ]
            assert words[0] == words[1] and words[0], (shown, answer)
            respelled += (" " + words[0][0] in shown) != (" " + words[0][0] in answer)
    assert respelled > 20


def test_a_stopped_training_resumes_bit_identically(tmp_path: Path) -> None:
    """Steps 0 to 3 in one go leave the weights of steps 0 and 1, a stop, and steps 2 and 3."""
    torch = pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    module = maker()

    def draw(rng: Rng) -> Turns:
        return [("page", " ".join(rng.sample(["red", "blue", "green", "tin"], 3))) for _ in range(4)]

    stage = module.Stage("short", draw, 64, 32, 4, 2e-3, 1e-4)

    def weights(policy: Policy) -> Any:
        return torch.cat([parameter.detach().flatten() for parameter in policy.model.parameters()])

    whole = Policy.load("tiny")
    module.train(whole, stage, 0, tmp_path / "whole.pt", {})
    stopped = Policy.load("tiny")
    training = module.Training(stopped, 4, 2e-3, 1e-4)
    for step in range(2):
        training.step(module.stage_batch(stage, step, stopped, 0))
    training.save(tmp_path / "state.pt", "short")
    resumed = Policy.load("tiny")
    module.train(resumed, stage, 0, tmp_path / "state.pt", torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(weights(resumed), weights(whole))
    assert not torch.equal(weights(whole), weights(Policy.load("tiny")))


def test_muon_takes_the_steps_of_pytorch() -> None:
    """Three steps on a square, a wide and a tall matrix differ from `torch.optim.Muon` by its rounding only."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in ((16, 16), (8, 24), (24, 8))]
    ours, theirs = ([torch.nn.Parameter(matrix.clone()) for matrix in start] for _ in range(2))
    reference = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    optimizer = script("tiny_training").Muon(ours, lr=0.1, weight_decay=0.01)
    for _ in range(3):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        optimizer.step()
        reference.step()
    for one, other, before in zip(ours, theirs, start, strict=True):
        assert (one - before).norm() > 0.1
        assert (one - other).norm() < 0.02 * (one - before).norm()


def test_a_deeper_base_answers_as_before_and_then_learns_in_every_layer() -> None:
    """A grown model has twice the layers and the same logits; a few steps change its new layers."""
    torch = pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    module, policy = maker(), Policy.load("tiny")
    grown = module.deepen(policy)
    ids, labels = module.repeats(torch.Generator().manual_seed(0), len(policy.tokenizer), 4, 48, 8, 32)
    assert grown.model.config.num_hidden_layers == 2 * policy.model.config.num_hidden_layers
    assert grown.model.config.tie_word_embeddings == policy.model.config.tie_word_embeddings
    with torch.no_grad():
        assert torch.equal(grown.model(ids).logits, policy.model(ids).logits)
    before = {name: weight.clone() for name, weight in grown.model.state_dict().items() if ".layers." in name}
    training = module.Training(grown, 10, 1e-2, 1e-3)
    for _ in range(3):
        training.step([(ids, labels)])
    after = grown.model.state_dict()
    assert not [name for name, weight in before.items() if torch.equal(weight, after[name])]


def test_several_bases_are_averaged(tmp_path: Path) -> None:
    """Training begins with the mean of their weights, and only if they have one tokenizer."""
    torch = pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    module, folders = maker(), [tmp_path / "a", tmp_path / "b"]
    for number, folder in enumerate(folders):
        policy = Policy.load("tiny")
        for weight in policy.model.parameters():
            weight.data += 0.1 * (number + 1)
        policy.save(folder)
    mean, start = (
        policy.model.state_dict() for policy in (module.begin(tmp_path, None, folders, 0), Policy.load("tiny"))
    )
    assert all(torch.allclose(mean[name], start[name] + 0.15, atol=1e-5) for name in start)
    with pytest.raises(SystemExit, match="different tokenizers"):
        module.begin(tmp_path, None, [FOLDER / "agentgym_data" / name for name in ("tiny", "tiny-worlds")], 0)


_STEPS = """
import os, sys
import torch, torch.distributed as dist
import make_tiny_base as base
from agentgym_py.policy.policy import Policy

dist.init_process_group("gloo")
policy = Policy.load("tiny")
generator = torch.Generator().manual_seed(0)
training = base.Training(policy, 3, 1e-3, 1e-4)
for _ in range(3):
    ids, labels = base.repeats(generator, len(policy.tokenizer), 4, 48, 8, 32)
    own = slice(int(os.environ["RANK"]), None, int(os.environ["WORLD_SIZE"]))
    training.step([(ids[own], labels[own])])
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
