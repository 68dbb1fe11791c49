"""Train a base such as `tiny`: a small model that has read the worlds' language, a stand-in for a base LLM.

    python datasets/make_tiny_base.py --state runs/base [--out datasets/agentgym_data/tiny-worlds] [--base FOLDER]

Training starts with drills (repeated random tokens) until the model copies from its context. Next are short documents
of `tiny_documents.py`, whose many questions teach it to read, then documents about as long as episodes. Last come
documents whose agents think as an expert and act at random, so that acting is left to learn. Longer drills are mixed
in, tables of random names to look up, and words to write in another style. The loss covers only the answers. Training
takes several hours on two cores and ends with an exam on unseen questions; the card beside the weights has the results.
It keeps its state in `--state`, and the same command resumes it. With `--base` another base is trained further, or the
mean of several, with `--grow` at twice its layers, and with `--worlds` and `--short 0` on documents of these worlds
alone. Under `torchrun --nproc_per_node 2` two processes share each batch.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from tiny_documents import Documents
from tiny_household import room_questions
from tiny_shop import Turns, exercise
from tiny_training import PROCESSES, Batch, Training
from tiny_worlds import DIFFICULTIES, WORLDS, Unlearned, reset, wander

from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.files import write_atomic
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import build_model, build_tokenizer, hybrid_config
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.rng import Rng, seed_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_RANK = int(os.environ.get("RANK", "0"))
_VOCAB = 2048
_SHORT, _LONG = (6400, 640), (5376, 1344)
"""Tokens of a batch, and maximum tokens of a row."""
_LOOKUPS, _REPEATS, _SPELLINGS = 0.02, 0.02, 0.1
"""Shares of three kinds of drills among the batches after the first drill. Their gradients are many times as large."""
_STYLES = (
    (": ", ", ", "."), ("; ", " and ", ":"), (" | ", " | ", " |"),
    ('"', '", "', '"'), ('["', '", "', '"]'), ('{"', '": "', '"}'), ("'", "', '", "'"), ("click[", "] click[", "]"),
    ("(", ") (", ")"), ("#", " #", ""), ("\n", "\n", ""),
)  # fmt: skip
"""Ways to write words: what stands before, between and after them. Only in the first three do words follow a space."""
_COPY_LOSS, _MAX_DRILLS = 0.4, 3000
"""The loss of drills at which a model copies, and the maximum number of batches until then."""
_LOOKUP_LOSS, _MAX_LOOKUPS = 0.4, 1500
"""The same for looking up in tables, which is taught next."""
_RATE_SCALE = 0.3
"""Factor of the trainers' default learning rates in the config of a base; with larger steps it forgets how to read."""
_SAVE_STEPS = 200
_EXAM = 1 << 40
"""Seed of the exam, which no batch has."""


@dataclass(frozen=True)
class Stage:
    """A part of the training: documents of one kind."""

    name: str
    draw: Callable[[Rng], Turns]
    tokens: int
    """Tokens of a batch, of all processes."""
    width: int
    """Maximum tokens of a row."""
    steps: int
    first: float
    """Learning rate at the start."""
    last: float
    """Learning rate at the end."""


def encode_turns(turns: Turns, policy: Policy) -> tuple[list[int], list[int]]:
    """Encode a document as the ids of a conversation and labels of the answers."""
    ids: list[int] = []
    labels: list[int] = []
    for number, (user, answer) in enumerate(turns):
        context = policy.chat.turn(user) if number else policy.chat.opening(user)
        reply = policy.chat.reply(answer) if answer else []
        ids += context + reply
        labels += [IGNORED] * len(context) + ([IGNORED] * len(reply) if isinstance(answer, Unlearned) else reply)
    return ids, labels


def repeats(generator: torch.Generator, vocab: int, rows: int, width: int, shortest: int, longest: int) -> Batch:
    """Draw rows that repeat a random segment of `shortest` to `longest` tokens; the first segment has no labels."""
    ids = torch.randint(4, vocab, (rows, width), generator=generator)
    length = torch.randint(shortest, longest + 1, (rows, 1), generator=generator)
    place = torch.arange(width)[None]
    ids = ids.gather(1, place % length)
    return ids, ids.masked_fill(place <= length, IGNORED)


def lookups(rng: Rng, vocab: int, rows: int, width: int) -> Batch:
    """Draw rows of tables of names and values; after each, every name with its value, which alone has labels."""
    ids, labels = (torch.zeros((rows, width), dtype=torch.long) for _ in range(2))
    for row in range(rows):
        place = 0
        while place < width:
            table, learned = _table(rng, vocab)
            end = min(width, place + len(table))
            ids[row, place:end] = torch.tensor(table[: end - place])
            labels[row, place:end] = torch.tensor(learned[: end - place])
            place = end
    return ids, labels


def _table(rng: Rng, vocab: int) -> tuple[list[int], list[int]]:
    """Draw a table and its questions, as ids and labels.

    Names are one to three of 16 or 64 tokens, so that many share a beginning, as made-up names do. In a third of the
    tables a value is one of four tokens and stands before the name, as a count does; in the others it is a name and
    follows.
    """
    size, before = rng.choice((16, 64, 64)), rng.below(3) == 0
    mark, end, *tokens = rng.sample(range(4, vocab), 6 + size)
    counts, letters = tokens[:4], tokens[4:]

    def name() -> tuple[int, ...]:
        return tuple(rng.choice(letters) for _ in range(1 + rng.below(3)))

    table = {name(): (rng.choice(counts),) if before else name() for _ in range(4 + rng.below(17))}
    ids: list[int] = []
    for key, value in table.items():
        ids += [*value, *key, end] if before else [*key, mark, *value, end]
    labels = [IGNORED] * len(ids)
    for key in rng.sample([*table], len(table)):
        ids += [*key, mark, *table[key], end]
        labels += [*[IGNORED] * (len(key) + 1), *table[key], end]
    return ids, labels


def spellings(rng: Rng, tokenizer: PreTrainedTokenizerBase, rows: int, width: int) -> Batch:
    """Draw rows of words, each time in two styles, as in `: unit cost, level.` and `["unit cost", "level"]`.

    The second time they have labels, after the token that tells the style. A word has other tokens after a space than
    after a quotation mark, such as ` costs` and `co|st|s`. Who writes words of random tokens in another style has
    learned how each token is spelled.
    """
    words, parts = _pieces(tokenizer)
    ids, labels = (torch.zeros((rows, width), dtype=torch.long) for _ in range(2))
    for row in range(rows):
        line: list[int] = []
        learned: list[int] = []
        while len(line) < width:
            names = [_name(rng, words, parts) for _ in range(1 + rng.below(6))]
            texts = [f"{before}{between.join(names)}{after}\n" for before, between, after in rng.sample(_STYLES, 2)]
            shown, answer = (tokenizer.encode(text, add_special_tokens=False) for text in texts)
            line += [*shown, *answer]
            learned += [*[IGNORED] * (len(shown) + 1), *answer[1:]]
        ids[row], labels[row] = torch.tensor(line[:width]), torch.tensor(learned[:width])
    return ids, labels


@lru_cache(maxsize=1)
def _pieces(tokenizer: PreTrainedTokenizerBase) -> tuple[list[str], list[str]]:
    """Return the tokens of letters that begin a word, without their space, and those that continue one."""
    texts = [tokenizer.decode([number]) for number in range(len(tokenizer))]
    return [text[1:] for text in texts if re.fullmatch(" [A-Za-z]{2,}", text)], [
        text for text in texts if re.fullmatch("[a-z]+", text)
    ]


def _name(rng: Rng, words: list[str], parts: list[str]) -> str:
    """Draw a name of one word or more, each of one to three tokens."""
    word = rng.choice(words) + "".join(rng.choice(parts) for _ in range(max(0, rng.below(4) - 1)))
    word = word[:1].upper() + word[1:] if rng.below(5) == 0 else word
    return f"{word} {_name(rng, words, parts)}" if rng.below(4) == 0 else word


def drill(policy: Policy, seed: int) -> float:
    """Train on rows of 64 that repeat a random segment of 8 to 32 tokens until the model copies; return the loss.

    Copying emerges suddenly: in a Llama with a vocabulary of 1,536 between batches 500 and 700 (the loss falls from 6
    to 0.5), with a larger vocabulary later. It does not transfer to new tokens. So the vocabulary of a base is small.
    """
    generator = torch.Generator().manual_seed(seed)
    trainer, vocab = Training(policy, _MAX_DRILLS, 3e-3, 3e-3), len(policy.tokenizer)
    for _ in range(_MAX_DRILLS):
        ids, labels = repeats(generator, vocab, 32, 64, 8, 32)
        if trainer.step([(ids[_RANK::PROCESSES], labels[_RANK::PROCESSES])]) < _COPY_LOSS:
            break
    print(f"copies after {trainer.done} batches  loss {trainer.smoothed:.3f}", flush=True)
    return trainer.smoothed


def drill_lookups(policy: Policy, seed: int) -> None:
    """Train on tables of random names until the model looks names up."""
    trainer, vocab = Training(policy, _MAX_LOOKUPS, 3e-3, 3e-3), len(policy.tokenizer)
    rows = 32 // PROCESSES
    for number in range(_MAX_LOOKUPS):
        batch = [
            lookups(Rng(seed, "lookups", number, _RANK), vocab, rows, 128),
            repeats(torch.Generator().manual_seed(seed_of(seed, number, _RANK) >> 1), vocab, rows // 4, 128, 8, 64),
        ]
        if trainer.step(batch) < _LOOKUP_LOSS:
            break
        if number % 100 == 99:
            print(f"lookups {number + 1}  loss {trainer.smoothed:.3f}", flush=True)


def stage_batch(stage: Stage, step: int, policy: Policy, seed: int) -> list[Batch]:
    """Draw this process's share of a batch; one in seven batches is a drill.

    The share depends on the batch's number and the number of processes alone. Its last document is cut to fit.
    """
    share = stage.tokens // PROCESSES
    kind = Rng(seed, stage.name, step).uniform()
    vocab, rows = len(policy.tokenizer), share // stage.width
    if kind < _LOOKUPS:
        return [lookups(Rng(seed, stage.name, "lookups", step, _RANK), vocab, rows, stage.width)]
    if kind < _LOOKUPS + _REPEATS:
        generator = torch.Generator().manual_seed(seed_of(seed, stage.name, step, _RANK) >> 1)
        return [repeats(generator, vocab, rows, stage.width, 12, stage.width // 2)]
    if kind < _LOOKUPS + _REPEATS + _SPELLINGS:
        return [spellings(Rng(seed, stage.name, "spellings", step, _RANK), policy.tokenizer, rows, stage.width)]
    rng = Rng(seed, stage.name, step, _RANK)
    documents = []
    while share > 0:
        ids, labels = (part[: min(share, stage.width)] for part in encode_turns(stage.draw(rng), policy))
        documents.append((ids, labels))
        share -= len(ids)
    return [(torch.tensor([ids]), torch.tensor([labels])) for ids, labels in documents]


def train(policy: Policy, stage: Stage, seed: int, path: Path, state: dict[str, Any]) -> None:
    """Train on a stage, from `state` if it is of this stage, and save to `path` on the way."""
    training = Training(policy, stage.steps, stage.first, stage.last)
    if state.get("stage") == stage.name:
        training.load(state)
    began, before = time.monotonic(), training.done
    while training.done < stage.steps:
        training.step(stage_batch(stage, training.done, policy, seed))
        if _RANK == 0 and (training.done % _SAVE_STEPS == 0 or training.done == stage.steps):
            training.save(path, stage.name)
            speed = (training.done - before) * stage.tokens / (time.monotonic() - began)
            print(
                f"{stage.name} {training.done} of {stage.steps}  loss {training.smoothed:.3f}  {speed:.0f} tokens/s",
                flush=True,
            )
    policy.model.eval()


def exam(policy: Policy, exercises: int = 400) -> dict[str, tuple[int, int]]:
    """Answer unseen questions greedily; return right answers and questions, by kind of question."""
    prompts, answers, kinds = [], [], []
    for source, turns in exam_documents(exercises):
        ids: list[int] = []
        for number, (user, answer) in enumerate(turns):
            ids = ids + policy.chat.turn(user) if number else policy.chat.opening(user)
            if kind := _kind(source, user, answer):
                kinds.append(f"{source}: {kind}")
                prompts.append(ids)
                answers.append(answer)
            ids = ids + policy.chat.reply(answer)
    replies = HFEngine(policy, slots=128).generate(prompts, SamplingParams(temperature=0.0, max_new_tokens=100))
    score: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for kind, answer, reply in zip(kinds, answers, replies, strict=True):
        right, asked = score[kind]
        texts = (_thought(text) for text in (policy.decode(reply.ids), answer))
        score[kind] = right + (len(set(texts)) == 1), asked + 1
    return dict(sorted(score.items()))


def _thought(reply: str) -> str:
    """Return what a reply says before its action, which is random; all of an answer without a thought."""
    return re.split(r" Now |\nAction:", reply, maxsplit=1)[0]


def exam_documents(exercises: int) -> Iterator[tuple[str, Turns]]:
    """Yield documents with questions: of the shop (half of them after results), of rooms, and easy aimless attempts."""
    documents, rng = Documents(), Rng("exam", _EXAM)
    library = documents.library
    for number in range(exercises):
        yield ("shop, after results", exercise(rng, library, 8)) if number % 2 else ("shop", exercise(rng, library))
        if number % 2:
            yield "household", room_questions(rng, documents.homes)
        name = list(WORLDS)[number % len(WORLDS)]
        env = documents.worlds[name, DIFFICULTIES[0]]
        yield name, wander(env, reset(rng, env), rng)


def _kind(source: str, user: str, answer: str) -> str:
    """Return the kind of question of a turn; empty if it is none."""
    if source in WORLDS:
        return "the expert's thought" if answer.startswith("Thought:") else ""
    question = user.split("\n")[-1]
    if re.match(r"Thought: .+\? (Yes|No|Chosen|Not yet)\. Now ", answer):
        return "options of a page"
    if not question.endswith("?"):
        return ""
    absent = ", none there" if answer == "none" else ""
    return f"{question.partition(' ')[0]} …?{absent}" if question.startswith(("Which", "Were")) else question


CARD = """# The base `{name}`

An LFM2 of {parameters} weights ({config}), and a byte-level BPE tokenizer of {vocab} tokens.
A stand-in for the base LLM of the papers: `agentgym evolve` starts from it.

- **Training**: drills until it copied, then tokens of short documents and of long ones, with further drills among them,
  by these commands, in order (… is a folder, or the result of the command before; with two bases, of the two before):

{commands}

- **Data**: only text that this project generates, from training tasks (`datasets/tiny_documents.py`): repeated random
  tokens, tables of random names, and words in two styles; random walks through the shop, and questions with answers
  about made-up requests and pages; attempts in the household, and questions about tasks and pages; attempts in thirteen
  other worlds, and questions about recipes, sums and words. The loss covers only the assistant's turns.
- **Shop.** In walks and on made-up pages the customer first thinks which requested options a product's page has (in the
  form of Agent_v0's teacher, `ShopEnv.expert_thought`) and then clicks at random. There are three hints. Half of the
  searches in walks, and all in exercises, are for the request with all or some of its options; in four of five medium
  tasks that is the teacher's own search. Half of the options clicked on made-up pages are requested ones. Nine of ten
  clicks in walks avoid buy now, back to search and reviews. Exercises go from a search over a click on a result to a
  page, as episodes do.
- **Household.** Attempts follow the fair expert, with random detours. Three of four pursue another task's goal than the
  given one; they state it at once and give the teacher's reasons (`HouseholdEnv.expert_thought`). One of four pursues
  the given goal and gives no reasons. In two of five attempts, and in half of the questions, things and receptacles
  have made-up names.
- **Calculator, errand, grid, lab, maze, service, sheet, SQL, TextCraft, todo, tools, twentyquestions, Wordle.**
  Attempts follow the fair expert; seven of eight give the teacher's reasons. These are solutions of training tasks, but
  half of the attempts with reasons in the maze and in TextCraft pursue another goal than the given one. In the last
  documents three of four attempts give the teacher's reasons and act at random, and the others follow the expert
  without reasons. So the base reads and thinks like the teacher, and an agent has to learn to act on what it thinks.
- **Grid, sheet, SQL, TextCraft, todo, tools.** Half of the documents put several missions, questions, goals or
  requests to one first observation.
- **Detours** in attempts are random, and the loss does not cover them.
- **Wordle's** whole list of words is spelt, and documents name words of it that fit given letters or marks, as every
  player knows them; marks are given only for words that training tasks hide.
- **Not in the data**: tasks of the valid or test split and, except in lines of results, products that a held-out task
  asks for.
- **Licence**: the project's own, MIT. **Digest** of the weights: `{digest}`.

Exam: greedy answers to {asked} unseen questions, which count only if they match literally. Actions are random, so they
are not compared. In the thirteen other worlds the question is an easy training task after some random actions, and the
answer is the expert's thought.

| question | right |
|---|---|
{rows}
"""


def main(words: Sequence[str] | None = None) -> None:
    """Train tokenizer and model, run the exam, write everything and the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "agentgym_data" / "tiny-worlds")
    parser.add_argument("--state", type=Path, required=True, help="a folder for the state of the training")
    parser.add_argument("--short", type=int, default=30_000_000, help="tokens of short documents")
    parser.add_argument("--tokens", type=int, default=60_000_000, help="tokens of long documents")
    parser.add_argument("--aimless", type=int, default=3_000_000, help="tokens of documents that act at random")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate at the start of the first two stages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--base", type=Path, nargs="+", default=[], metavar="FOLDER",
        help="a base to train further, or several, whose weights are averaged; by default a new one",
    )  # fmt: skip
    parser.add_argument("--worlds", nargs="+", default=[], choices=WORLDS, help="long documents of these worlds only")
    parser.add_argument("--grow", action="store_true", help="double the layers of --base before it is trained further")
    parser.add_argument("--bfloat16", action="store_true", help="write the weights in bfloat16, in half the space")
    args = parser.parse_args(words)
    if args.worlds and args.short:
        parser.error("short documents are of all worlds: --worlds goes with --short 0")
    if args.worlds and args.out == parser.get_default("out"):
        parser.error("--worlds needs an --out of its own")
    torch.set_num_threads(1)  # as fast as two threads, and reproducible
    if PROCESSES > 1:
        dist.init_process_group("gloo")
    documents = Documents(args.worlds)
    stages = [
        Stage("short", documents.short, *_SHORT, args.short // _SHORT[0], args.rate, 2e-4),
        Stage("long", documents.long, *_LONG, args.tokens // _LONG[0], args.rate, 1e-4),
        Stage("aimless", documents.aimless, *_LONG, args.aimless // _LONG[0], 5e-4, 5e-5),
    ]
    args.state.mkdir(parents=True, exist_ok=True)
    path = args.state / "state.pt"
    policy = begin(args.state / "start", documents, args.base, args.seed, grow=args.grow)
    state = torch.load(path, weights_only=True) if path.is_file() else {}
    if state and state["processes"] != PROCESSES:
        raise SystemExit(f"{path} was written by {state['processes']} processes, not {PROCESSES}")
    names = [stage.name for stage in stages]
    for stage in stages[names.index(state["stage"]) if state else 0 :]:
        if stage.steps:
            train(policy, stage, args.seed, path, state)
    if _RANK > 0:
        return
    policy.model.config.learning_rate_scale = _RATE_SCALE
    if args.bfloat16:
        policy.model.bfloat16()
    policy.save(args.out)
    command = (
        f"      {'python' if PROCESSES == 1 else f'torchrun --nproc_per_node {PROCESSES}'} datasets/make_tiny_base.py"
    )
    command += f" --state … --short {args.short} --tokens {args.tokens} --aimless {args.aimless} --seed {args.seed}"
    command += f" --worlds {shlex.join(args.worlds)}" * bool(args.worlds)
    command += f" --rate {args.rate}" + " --base" * bool(args.base) + " …" * len(args.base)
    command += " --grow" * args.grow + " --bfloat16" * args.bfloat16
    earlier = dict.fromkeys(line for base in args.base for line in _commands(base / "CARD.md"))
    write_card(Policy.load(args.out), args.out, [*earlier, command])


def begin(folder: Path, documents: Documents, bases: Sequence[Path], seed: int, *, grow: bool = False) -> Policy:
    """Return the policy that training starts from; a new one copies from its context and is kept in `folder`."""
    if bases:
        policy = average([Policy.load(base) for base in bases])
        return deepen(policy) if grow else policy
    if not (folder / "done").is_file():
        policy = new_policy(documents, seed)
        if _RANK == 0:
            policy.save(folder)
            write_atomic(folder / "done", "")
        if PROCESSES > 1:
            dist.barrier()
    return Policy.load(folder)


def average(policies: Sequence[Policy]) -> Policy:
    """Give the first policy the mean of all weights.

    Models that were trained further from one base, each on other data, keep much of what each learnt: model soups
    (Wortsman et al. 2022, arXiv:2203.05482).
    """
    if any(policy.tokenizer.get_vocab() != policies[0].tokenizer.get_vocab() for policy in policies):
        raise SystemExit("--base: bases with different tokenizers have no mean")
    states = [policy.model.state_dict() for policy in policies]
    mean = {name: torch.stack([state[name] for state in states]).mean(dim=0) for name in states[0]}
    policies[0].model.load_state_dict(mean)
    return policies[0]


def deepen(policy: Policy) -> Policy:
    """Follow each layer by a copy that adds nothing to the residual stream at first, so that no answer changes.

    This is the block expansion of LLaMA Pro (Wu et al. 2024, arXiv:2401.02415).
    """
    config = copy.deepcopy(policy.model.config)
    config.num_hidden_layers *= 2
    if getattr(config, "layer_types", None):
        config.layer_types = [kind for kind in config.layer_types for _ in range(2)]
    model = build_model(config, seed=0)
    weights = {}
    for name, weight in policy.model.state_dict().items():
        layer = re.fullmatch(r"(model\.layers\.)(\d+)(\..*)", name)
        if layer is None:
            weights[name] = weight
            continue
        adds = name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "w2.weight"))
        weights[f"{layer[1]}{2 * int(layer[2])}{layer[3]}"] = weight
        weights[f"{layer[1]}{2 * int(layer[2]) + 1}{layer[3]}"] = torch.zeros_like(weight) if adds else weight
    model.load_state_dict(weights)
    return Policy(model, policy.tokenizer, "tiny")


def new_policy(documents: Documents, seed: int) -> Policy:
    """Make a tokenizer and a model that copies from its context."""
    texts = (text for number in range(3000) for turn in documents.long(Rng(seed, "words", number)) for text in turn)
    tokenizer = build_tokenizer(texts, _VOCAB)
    policy = Policy(build_model(hybrid_config(len(tokenizer)), seed), tokenizer, "tiny")
    loss = drill(policy, seed)
    if loss > _COPY_LOSS:
        raise SystemExit(
            f"The model does not copy after {_MAX_DRILLS} batches of drills (loss {loss:.2f}): use another --seed"
        )
    drill_lookups(policy, seed)
    return policy


def _commands(card: Path) -> list[str]:
    return [line for line in card.read_text(encoding="utf-8").split("\n") if "make_tiny_base.py" in line]


def write_card(policy: Policy, folder: Path, commands: list[str]) -> None:
    """Run the exam and write the card."""
    score, config = exam(policy), policy.model.config
    rows = [f"| {kind} | {100 * right / asked:.0f} % of {asked} |" for kind, (right, asked) in score.items()]
    print("\n".join(rows))
    card = CARD.format(
        name=folder.name,
        parameters=f"{policy.num_parameters:,}",
        config=f"{config.num_hidden_layers} layers of {config.hidden_size}, {config.num_attention_heads} heads, "
        f"{config.num_key_value_heads} of keys and values",
        vocab=len(policy.tokenizer),
        commands="\n".join(commands),
        digest=policy.digest(),
        asked=sum(asked for _, asked in score.values()),
        rows="\n".join(rows),
    )
    (folder / "CARD.md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
