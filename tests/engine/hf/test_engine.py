"""The engine gives what a full forward over a row's whole history gives, whatever it keeps and however it batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_py.engine import Generation, HFEngine, SamplingParams  # torch first, or skip
from agentgym_py.engine.decoding import processed_logprobs
from agentgym_py.engine.hf import kvcache
from agentgym_py.engine.hf.forward import HuggingFaceForward
from agentgym_py.engine.hf.fused import FusedForward
from agentgym_py.engine.hf.kvcache import count_tokens
from agentgym_py.engine.hf.places import Seat
from agentgym_py.engine.hf.runner import kv_bytes_per_token
from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import build_model, build_tokenizer, hybrid_config, tiny_config

WORDS = ["search", "click", "buy", "red", "blue", "shoes", "lamp", "size", "price", "back", "page", "you", "see", "12"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests share the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny_policy(seed: int = 0, *, kv_heads: int = 2, ends: float = 1.6, hybrid: bool = False) -> Policy:
    """A random model whose replies differ in length: its end-of-turn token is likelier the larger `ends` is.

    A hybrid has a layer of short convolutions and one of attention.
    """
    tokenizer = build_tokenizer([" ".join(WORDS)] * 3, 320)
    config = (hybrid_config if hybrid else tiny_config)(
        len(tokenizer), hidden_size=64, layers=2, heads=4, kv_heads=kv_heads
    )
    config.initializer_range = 0.25
    policy = Policy(build_model(config, seed).eval(), tokenizer, "test")
    with torch.no_grad():
        policy.model.get_input_embeddings().weight[policy.chat.end_of_turn] *= ends
    return policy


def build(config: Any) -> Any:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


def sentence(rng: np.random.Generator, most: int) -> str:
    return " ".join(rng.choice(WORDS, size=int(rng.integers(1, most))))


def is_greedy(policy: Policy, prompt: list[int], reply: Generation, limit: int) -> bool:
    """Whether a reply is the model's greedy one: each token is the likeliest by one forward over the whole history.

    It ends with the end of the turn, which it has nowhere else, or at the limit.
    """
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*prompt, *reply.ids]]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    end = policy.chat.end_of_turn
    ended = end not in reply.ids[:-1] and (reply.ids[-1] == end or len(reply.ids) == limit)
    return ended and logits.argmax(-1).tolist() == list(reply.ids)


def full_logprobs(policy: Policy, prompt: list[int], reply: Generation, params: SamplingParams) -> list[float]:
    """Teacher-forced log-probabilities of a reply, by one forward without a cache."""
    ids = torch.tensor([prompt + list(reply.ids)], device=policy.model.device)
    with torch.no_grad():
        logits = policy.model(ids).logits[0, len(prompt) - 1 : -1]
    logprobs = processed_logprobs(logits, params)
    return [float(row[token]) for row, token in zip(logprobs, reply.ids, strict=True)]


class Conversations:
    """Episodes of random observations on a few slots, some of which end and are replaced by new ones."""

    def __init__(self, policy: Policy, count: int, seed: int = 0) -> None:
        self.policy, self.rng = policy, np.random.default_rng(seed)
        self.prompts = [self._opening() for _ in range(count)]

    def _opening(self) -> list[int]:
        return self.policy.chat.opening("you see the page : " + sentence(self.rng, 40))

    def go_on(self, replies: list[Generation], *, refill: float = 0.2) -> None:
        """Append the replies and new observations; some episodes end and others begin in their place."""
        end = self.policy.chat.end_of_turn
        for i, reply in enumerate(replies):
            forced = [] if reply.ids[-1] == end else [end]
            turn = self.policy.chat.turn(sentence(self.rng, 30))
            self.prompts[i] = [*self.prompts[i], *reply.ids, *forced, *turn]
            if self.rng.random() < refill:
                self.prompts[i] = self._opening()


@pytest.fixture(params=["fused", "general"])
def forward(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which forward runs a small Llama: our own, or transformers' with its attention led over the cache."""
    if request.param == "general":
        monkeypatch.setattr(FusedForward, "fits", lambda model: False)
    return str(request.param)


@pytest.mark.parametrize(
    ("kv_heads", "slots", "block", "hybrid"),
    [(1, 7, 2, False), (2, 10, 3, False), (4, 3, 16, False), (2, 7, 2, True), (2, 10, 3, True)],
)
def test_greedy_equals_full_reencode(
    slots: int, block: int, kv_heads: int, hybrid: bool, forward: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greedy tokens over six ragged turns with early stops and refilled slots are those of a forward row by row."""
    monkeypatch.setattr(kvcache, "_BLOCK", block)  # rows are sorted by length where there are several blocks
    policy = tiny_policy(0, kv_heads=kv_heads, hybrid=hybrid)
    engine = HFEngine(policy, slots=slots, prefill_tokens=100)
    assert type(engine.runner.forward) is (FusedForward if forward == "fused" else HuggingFaceForward)
    params = SamplingParams(temperature=0, max_new_tokens=12)
    talk = Conversations(policy, 7, seed=slots)
    lengths = set()
    for turn in range(6):
        asked = list(talk.prompts)
        replies = engine.generate(asked, params)
        assert all(is_greedy(policy, *each, 12) for each in zip(asked, replies, strict=True)), f"turn {turn}"
        lengths |= {len(reply.ids) for reply in replies}
        talk.go_on(replies)
    assert len(lengths) > 6, "replies of different lengths are what this test is about"


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(max_new_tokens=10),
        SamplingParams(temperature=0.7, max_new_tokens=10),
        SamplingParams(temperature=1.3, top_k=20, top_p=0.8, max_new_tokens=10),
    ],
)
@pytest.mark.parametrize("hybrid", [False, True])
def test_sampled_logprobs_equal_teacher_forcing(params: SamplingParams, hybrid: bool, forward: str) -> None:
    """Recorded log-probabilities are those of a full forward under the same temperature and truncation."""
    policy = tiny_policy(2, hybrid=hybrid)
    engine = HFEngine(policy, slots=5)
    talk = Conversations(policy, 5)
    for turn in range(4):
        asked = list(talk.prompts)
        replies = engine.generate(asked, params, seeds=[10 * turn + i for i in range(5)])
        for prompt, reply in zip(asked, replies, strict=True):
            np.testing.assert_allclose(reply.logprobs, full_logprobs(policy, prompt, reply, params), atol=1e-4)
        talk.go_on(replies)


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "bfloat16"), ("cuda", "bfloat16"), ("cuda", "float32")])
def test_sampled_logprobs_in_bfloat16_and_on_a_gpu(device: str, dtype: str) -> None:
    """Those of a full forward in the same numbers there, up to their rounding."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    policy, params = tiny_policy(2), SamplingParams(temperature=0.7, max_new_tokens=10)
    policy.model.to(device, getattr(torch, dtype))
    engine, talk, off = HFEngine(policy, slots=5), Conversations(policy, 5), list[float]()
    for turn in range(4):
        asked = list(talk.prompts)
        replies = engine.generate(asked, params, seeds=[10 * turn + i for i in range(5)])
        for prompt, reply in zip(asked, replies, strict=True):
            off += np.abs(np.subtract(reply.logprobs, full_logprobs(policy, prompt, reply, params))).tolist()
        talk.go_on(replies)
    assert np.mean(off) < (0.05 if dtype == "bfloat16" else 1e-3) and len(off) > 50


def test_greedy_logprobs_are_at_temperature_one() -> None:
    """A greedy reply records log-probabilities under temperature 1."""
    policy = tiny_policy(2)
    prompt = policy.chat.opening("red shoes")
    (reply,) = HFEngine(policy).generate([prompt], SamplingParams(temperature=0, max_new_tokens=10))
    np.testing.assert_allclose(reply.logprobs, full_logprobs(policy, prompt, reply, SamplingParams()), atol=1e-4)


def test_reply_depends_on_its_prompt_and_seed_only() -> None:
    """The same prompt and seed give the same reply alone, in a batch, in another order and on a used engine."""
    policy = tiny_policy(3)
    params = SamplingParams(max_new_tokens=12)
    prompts = Conversations(policy, 6).prompts
    seeds = list(range(6))
    engine = HFEngine(policy, slots=6)
    together = engine.generate(prompts, params, seeds)
    alone = [HFEngine(policy, slots=2).generate([p], params, [s])[0] for p, s in zip(prompts, seeds, strict=True)]
    turned = engine.generate(prompts[::-1], params, seeds[::-1])[::-1]
    assert [r.ids for r in together] == [r.ids for r in alone] == [r.ids for r in turned]
    assert together[0].ids != engine.generate(prompts[:1], params, [99])[0].ids


def test_shorter_limit_gives_a_beginning_of_the_same_reply() -> None:
    """A seed's draws do not depend on how long a reply may get."""
    policy = tiny_policy(3, ends=0.1)
    prompt = policy.chat.opening("lamp")
    engine = HFEngine(policy)
    long = engine.generate([prompt], SamplingParams(max_new_tokens=20), [5])[0]
    short = engine.generate([prompt], SamplingParams(max_new_tokens=7), [5])[0]
    assert long.ids[:7] == short.ids and short.finish_reason == "length"


def test_finish_reasons() -> None:
    """A reply that samples its end of turn keeps it and says `stop`; one that is cut says `length`."""
    policy = tiny_policy(1)
    prompts = Conversations(policy, 12).prompts
    replies = HFEngine(policy).generate(prompts, SamplingParams(max_new_tokens=12), list(range(12)))
    end = policy.chat.end_of_turn
    assert {r.finish_reason for r in replies} == {"stop", "length"}
    for reply in replies:
        assert end not in reply.ids[:-1]
        assert (reply.finish_reason == "stop") == (reply.ids[-1] == end)
        assert reply.finish_reason == "stop" or len(reply.ids) == 12


def test_who_joins_and_who_leaves_changes_no_reply() -> None:
    """Two batches that take turns, with fewer places than prompts: each reply is that to its prompt alone."""
    policy = tiny_policy()
    params = SamplingParams(temperature=1.0, max_new_tokens=16)
    talk, alone = Conversations(policy, 12), HFEngine(policy, slots=1)
    engine = HFEngine(policy, slots=5)
    batches = [engine.batch(params), engine.batch(params)]
    turns, found = [0] * 12, dict[tuple[int, int], Generation]()
    for i, prompt in enumerate(talk.prompts):
        batches[i % 2].add((i, 0), prompt, i)
    calls = 0
    while min(turns) < 3:
        ended = batches[calls % 2].take_ended()
        calls += 1
        for key, reply in ended:
            assert isinstance(key, tuple)
            i, turn = key
            expected = alone.generate([talk.prompts[i]], params, [i + 100 * turn])[0]
            assert reply.ids == expected.ids and reply.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
            found[i, turn] = reply
            turns[i] += 1
            if turns[i] < 3:
                history = [*talk.prompts[i], *reply.ids]
                talk.prompts[i] = history + policy.chat.turn(sentence(talk.rng, 30))
                batches[i % 2].add((i, turns[i]), talk.prompts[i], i + 100 * turns[i])
    assert len(found) == 36 and calls > 10
    assert batches[0].take_ended() == batches[1].take_ended() == []


def test_a_place_is_free_as_soon_as_its_reply_has_ended() -> None:
    """What joins then is answered while the longest reply of those that began before is still in the making."""
    policy = tiny_policy(ends=2.5)
    batch = HFEngine(policy, slots=8).batch(SamplingParams(temperature=1.0, max_new_tokens=24))
    talk = Conversations(policy, 8)
    for i, prompt in enumerate(talk.prompts):
        batch.add(i, prompt, i)
    order = list[Any]()
    while len(order) < 40:
        for key, _ in batch.take_ended():
            order.append(key)
            batch.add(8 + len(order), talk.prompts[len(order) % 8], 8 + len(order))
    firsts = [place for place, key in enumerate(order) if key < 8]
    assert len(firsts) == 8 and firsts[-1] > 8


def test_a_sync_in_the_midst_of_replies_is_an_error() -> None:
    """They would be of two policies; a batch that is empty takes the new weights."""
    engine = HFEngine(tiny_policy(ends=2.5), slots=4)
    batches = [engine.batch(SamplingParams(max_new_tokens=16)) for _ in range(2)]
    for i, prompt in enumerate(Conversations(engine.policy, 4).prompts):
        batches[0].add(i, prompt, i)
    assert len(batches[0].take_ended()) < 4
    engine.sync(tiny_policy(1), 1)
    with pytest.raises(PolicyError, match="while replies were in progress"):
        batches[0].take_ended()
    batches[1].add(0, Conversations(engine.policy, 1).prompts[0], 0)
    assert batches[1].take_ended()


def test_sync_forgets_what_old_weights_computed() -> None:
    """New weights are refused until a sync; then the next turn equals a full forward under them."""
    policy = tiny_policy(4)
    engine = HFEngine(policy, slots=4)
    params = SamplingParams(temperature=0, max_new_tokens=10)
    talk = Conversations(policy, 4)
    talk.go_on(engine.generate(talk.prompts, params), refill=0)
    before = HFEngine(policy).generate(talk.prompts, params)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    told = [is_greedy(policy, *each, 10) for each in zip(talk.prompts, before, strict=True)]
    assert not all(told), "the weights must have changed enough for this test to mean something"
    with pytest.raises(PolicyError, match="changed since the engine's last sync"):
        engine.generate(talk.prompts, params)
    engine.sync(policy, 1)
    assert engine.version == 1
    after = engine.generate(talk.prompts, params)
    assert all(is_greedy(policy, *each, 10) for each in zip(talk.prompts, after, strict=True))


def test_any_write_to_a_weight_is_noticed() -> None:
    """One that torch does not count, in the last of odd numbers of weights, in any number format, or another model."""
    policy = tiny_policy(4)
    policy.model.register_parameter("odd", torch.nn.Parameter(torch.zeros(3)))
    params, prompt = SamplingParams(max_new_tokens=2), policy.chat.opening("a")
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        policy.model.to(dtype)
        engine = HFEngine(policy)
        engine.generate([prompt], params)
        for parameter in policy.model.parameters():
            parameter.data.view(-1)[-1] += 1.0
            with pytest.raises(PolicyError, match="last sync"):
                engine.generate([prompt], params)
            parameter.data.view(-1)[-1] -= 1.0
            engine.sync(policy, 1)
    policy.model = tiny_policy(4).model
    with pytest.raises(PolicyError, match="last sync"):
        engine.generate([prompt], params)


def test_cache_grows() -> None:
    """An episode that outgrows the slots' capacity continues as if nothing had happened."""
    policy = tiny_policy(5)
    engine = HFEngine(policy, slots=3)
    params = SamplingParams(temperature=0, max_new_tokens=6)
    rng = np.random.default_rng(0)
    prompts = [policy.chat.opening("short"), policy.chat.opening(sentence(rng, 8))]
    for words in (3, 40, 90, 200):
        replies = engine.generate(prompts, params)
        assert all(is_greedy(policy, *each, 6) for each in zip(prompts, replies, strict=True))
        observation = " ".join(WORDS[i % len(WORDS)] for i in range(words))
        prompts = [[*p, *r.ids, *policy.chat.turn(observation)] for p, r in zip(prompts, replies, strict=True)]


def test_a_continued_episode_computes_only_what_is_new() -> None:
    """The second turn computes the last sampled token and the observation, nothing else."""
    policy = tiny_policy(6)
    engine = HFEngine(policy, slots=4)
    params = SamplingParams(max_new_tokens=8)
    prompts = Conversations(policy, 4).prompts
    replies = engine.generate(prompts, params, [1, 2, 3, 4])
    turn = policy.chat.turn("next page")
    before = engine.prefilled
    engine.generate([[*p, *r.ids, *turn] for p, r in zip(prompts, replies, strict=True)], params, [1, 2, 3, 4])
    assert engine.prefilled - before == 4 * (1 + len(turn))


def test_shared_beginnings_are_computed_once() -> None:
    """Tries at one task and tasks under one rules text share what is equal, with the same replies as apart."""
    policy = tiny_policy(7)
    rules = " ".join(WORDS * 6)
    first, second = (policy.chat.opening(f"{rules} {task}") for task in ("red shoes", "blue lamp now"))
    prompts = [first, second, first, second, first]
    params = SamplingParams(max_new_tokens=8)
    engine = HFEngine(policy, slots=5)
    replies = engine.generate(prompts, params, [1, 2, 3, 4, 5])
    assert engine.prefilled < len(first) + len(second) + 12
    apart = [HFEngine(policy).generate([p], params, [s])[0] for p, s in zip(prompts, [1, 2, 3, 4, 5], strict=True)]
    assert [r.ids for r in replies] == [r.ids for r in apart]


def test_training_mode_is_left_as_it_was() -> None:
    """The engine runs in evaluation mode and gives the model back in the mode that it had."""
    policy = tiny_policy(0)
    policy.model.train()
    HFEngine(policy).generate([policy.chat.opening("a")], SamplingParams(max_new_tokens=2))
    assert policy.model.training


def test_replies_end_at_the_context_limit() -> None:
    """A reply never outgrows the model's context, and a prompt that fills it is refused with its length."""
    policy = tiny_policy(0, ends=0.01)
    policy.model.config.max_position_embeddings = 50
    engine = HFEngine(policy)
    prompt = policy.chat.opening("a " * 100)[:45]
    (reply,) = engine.generate([prompt], SamplingParams(max_new_tokens=40))
    assert len(reply.ids) == 5 and reply.finish_reason == "length"
    others = [policy.chat.opening("a"), policy.chat.opening("b")]  # they go on for long after the first has ended
    replies = engine.generate([prompt, *others], SamplingParams(temperature=0, max_new_tokens=40))
    assert [len(reply.ids) for reply in replies] == [5, 40, 40]
    with pytest.raises(ConfigError, match="50 tokens leaves no room"):
        engine.generate([prompt + [1] * 5], SamplingParams())


def test_wrong_calls_are_refused() -> None:
    """An empty prompt, a wrong number of seeds and wrong sizes raise, each with what was wrong."""
    policy = tiny_policy(0)
    with pytest.raises(ConfigError, match="at least one token"):
        HFEngine(policy).generate([[]], SamplingParams())
    with pytest.raises(ConfigError, match="as many seeds"):
        HFEngine(policy).generate([[1], [2]], SamplingParams(), [0])
    with pytest.raises(ConfigError, match="slots"):
        HFEngine(policy, slots=0)
    assert HFEngine(policy).generate([], SamplingParams()) == []


@pytest.mark.parametrize("kind", ["Qwen2", "GPT2", "Phi"])
def test_other_models_run_too(kind: str) -> None:
    """Any model behind transformers' attention interface gives its own greedy tokens: biases, learnt positions."""
    import transformers

    policy = tiny_policy(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(policy.tokenizer), initializer_range=0.3, **sizes)
    policy.model = build(config)
    engine = HFEngine(policy, slots=4)
    params = SamplingParams(temperature=0, max_new_tokens=8)
    talk = Conversations(policy, 3)
    for _ in range(3):
        replies = engine.generate(talk.prompts, params)
        assert all(is_greedy(policy, *each, 8) for each in zip(talk.prompts, replies, strict=True))
        talk.go_on(replies)
    assert policy.model.config._attn_implementation == "sdpa", "the model is given back with its own attention"


def test_lora_adapters_take_part() -> None:
    """A policy under LoRA is run with its adapter."""
    peft = pytest.importorskip("peft")
    policy = tiny_policy(1)
    bare = HFEngine(policy).generate(prompts := Conversations(policy, 3).prompts, SamplingParams(temperature=0))
    policy.model = peft.get_peft_model(policy.model, peft.LoraConfig(r=2, target_modules="all-linear"))
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(0))
    replies = HFEngine(policy).generate(prompts, SamplingParams(temperature=0))
    assert all(is_greedy(policy, *each, 64) for each in zip(prompts, replies, strict=True))
    assert [reply.ids for reply in replies] != [reply.ids for reply in bare]


def test_an_interrupted_engine_forgets_what_it_was_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C in the middle of a reply the engine still gives what a full forward gives."""
    policy = tiny_policy(9)
    engine = HFEngine(policy, slots=3)
    params = SamplingParams(temperature=0, max_new_tokens=8)
    talk = Conversations(policy, 3)
    talk.go_on(engine.generate(talk.prompts, params), refill=0)
    calls = iter(range(100))
    whole = engine.runner.forward

    def interrupted(*args: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return whole(*args)

    monkeypatch.setattr(engine.runner, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.generate([prompt[: len(prompt) // 2] for prompt in talk.prompts], params)
    replies = engine.generate(talk.prompts, params)
    assert all(is_greedy(policy, *each, 8) for each in zip(talk.prompts, replies, strict=True))


def test_sampling_follows_the_distribution() -> None:
    """Many seeds' first tokens occur as often as the model says."""
    policy = tiny_policy(8)
    prompt = policy.chat.opening("price")
    params = SamplingParams(temperature=0.8, top_k=5, max_new_tokens=1)
    replies = HFEngine(policy, slots=64).generate([prompt] * 2000, params, list(range(2000)))
    counts = np.bincount([reply.ids[0] for reply in replies], minlength=policy.model.config.vocab_size)
    with torch.no_grad():
        probs = processed_logprobs(policy.model(torch.tensor([prompt])).logits[:, -1], params)[0].exp().numpy()
    assert set(np.flatnonzero(counts)) <= set(np.flatnonzero(probs))
    np.testing.assert_allclose(counts / 2000, probs, atol=4 * np.sqrt(0.25 / 2000))


def test_ragged_rows_are_sorted_only_where_it_pays() -> None:
    """Rows of mixed lengths come to the front sorted; rows of one length stay where they are."""
    engine = HFEngine(tiny_policy(0), slots=64)
    mixed = [10 + 40 * (i % 2) for i in range(64)]
    order = engine.runner.places.to_front([Seat(slot, length, 0, length) for slot, length in enumerate(mixed)])
    assert [mixed[i] for i in order] == sorted(mixed)
    assert engine.runner.places.to_front([Seat(slot, 50, 0, 50) for slot in range(64)]) == list(range(64))


def bounded(policy: Policy, tokens: int, **options: Any) -> HFEngine:
    """An engine whose cache holds this many tokens at most."""
    size = kv_bytes_per_token(policy.model.config, policy.model.dtype)
    return HFEngine(policy, kv_cache_gib=(tokens + 0.5) * size / 2**30, **options)


@pytest.mark.parametrize(("tokens", "block"), [(260, 2), (512, 16), (1100, 2), (1536, 16)])
def test_a_bounded_cache_gives_the_same_replies(tokens: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts wait and idle slots are dropped; each reply is that to its prompt alone, within the bound."""
    monkeypatch.setattr(kvcache, "_BLOCK", block)
    policy = tiny_policy()
    params = SamplingParams(temperature=1.0, max_new_tokens=16)
    talk, alone = Conversations(policy, 10), HFEngine(policy, slots=1)
    engine = bounded(policy, tokens, slots=8)
    batch, turns, dropped = engine.batch(params), [0] * 10, 0
    for i, prompt in enumerate(talk.prompts):
        batch.add((i, 0), prompt, i)
    while min(turns) < 4:
        for key, reply in batch.take_ended():
            assert isinstance(key, tuple)
            i, turn = key
            expected = alone.generate([talk.prompts[i]], params, [i + 100 * turn])[0]
            assert reply.ids == expected.ids and reply.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
            turns[i] += 1
            if turns[i] < 4:
                talk.prompts[i] = [*talk.prompts[i], *reply.ids, *policy.chat.turn(sentence(talk.rng, 30))]
                batch.add((i, turns[i]), talk.prompts[i], i + 100 * turns[i])
        held = engine.runner.places.cache.nbytes / kv_bytes_per_token(policy.model.config, policy.model.dtype)
        assert 0 < held <= tokens and held == count_tokens(engine.runner.places.cache.sizes)
        dropped += sum(not len(ids) for ids in engine.runner.places.book.contents)
    assert dropped


def test_what_never_fits_the_cache_is_refused() -> None:
    """A prompt whose reply exceeds the bound alone is an error that names the setting."""
    engine = bounded(tiny_policy(), 128)
    with pytest.raises(ConfigError, match="memory for 128: raise kv_cache_gib"):
        engine.generate([[1] * 100], SamplingParams(max_new_tokens=40))
    with pytest.raises(ConfigError, match="kv_cache_gib must be above 0"):
        HFEngine(engine.policy, kv_cache_gib=0)


@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Gemma3Text", "Phi", "GPT2"])
def test_bytes_of_a_token_are_those_of_the_cache(kind: str) -> None:
    """What the bound counts is what torch allocates."""
    import transformers

    policy = tiny_policy(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {} if kind == "GPT2" else {"num_key_value_heads": 2}
    ids = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    policy.model = build(getattr(transformers, f"{kind}Config")(vocab_size=len(policy.tokenizer), **ids, **sizes))
    engine = HFEngine(policy, slots=3)
    engine.generate([[1, 2, 3]] * 3, SamplingParams(max_new_tokens=2))
    per_token = kv_bytes_per_token(policy.model.config, policy.model.dtype)
    assert engine.runner.places.cache.nbytes == count_tokens(engine.runner.places.cache.sizes) * per_token > 0


def test_nothing_on_the_device_is_float64() -> None:
    """Apple's GPUs have no float64; draws are made in it on the CPU and sent as float32."""
    batch = HFEngine(tiny_policy(ends=0.1), slots=2).batch(SamplingParams(max_new_tokens=20))
    for i, prompt in enumerate(Conversations(batch._runner.policy, 2).prompts):
        batch.add(i, prompt[: 9 + i], i)
    batch._fill_places()
    assert batch._rows is not None
    tensors = [value for value in vars(batch._rows).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 5 and not any(tensor.dtype == torch.float64 for tensor in tensors)
