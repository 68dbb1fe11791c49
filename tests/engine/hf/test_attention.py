"""Attention other than full and plain: sliding windows, softcapping, sinks; and masks that GPU kernels can read."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_py.engine import HFEngine, SamplingParams  # torch first, or skip
from agentgym_py.engine.decoding import processed_logprobs
from agentgym_py.engine.hf import kvcache
from agentgym_py.errors import PolicyError
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import build_model, build_tokenizer, tiny_config

WORDS = ["search", "click", "buy", "red", "blue", "shoes", "lamp", "size", "price", "back", "page"]
WINDOW = 12
HALF = ["sliding_attention", "full_attention"]
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma2": ("Gemma2", {"sliding_window": WINDOW, "attn_logit_softcapping": 0.5, "head_dim": 8, "layer_types": HALF}),
    "gemma3": ("Gemma3Text", {"sliding_window": WINDOW, "head_dim": 8, "layer_types": HALF}),
    "mistral": ("Mistral", {"sliding_window": WINDOW}),
    "phi3": ("Phi3", {"sliding_window": WINDOW, "pad_token_id": 0}),
    "qwen2": ("Qwen2", {"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 1, "head_dim": 8}),
    "gpt_oss": ("GptOss", {"sliding_window": WINDOW, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1}),
    "cohere2": ("Cohere2", {"sliding_window": WINDOW, "layer_types": HALF}),
    "mixtral": ("Mixtral", {"sliding_window": WINDOW, "num_local_experts": 2}),
    "wide window": ("Mistral", {"sliding_window": 8192}),
    "no window": ("Mistral", {"sliding_window": None}),
}


def miniature(kind: str, **more: Any) -> Policy:
    """A policy of two layers with random weights."""
    import transformers

    tokenizer = build_tokenizer([" ".join(WORDS)] * 3, 320)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "vocab_size": len(tokenizer), "max_position_embeddings": 4096}
    ids = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **ids, "initializer_range": 0.3, **more})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    return Policy(model, tokenizer, "miniature")


def play(policy: Policy, turns: int = 3, words: int = 25, **options: Any) -> float:
    """Play episodes of random observations; return the largest error of a reply's log-probabilities."""
    rng, params, worst = np.random.default_rng(0), SamplingParams(max_new_tokens=6), 0.0
    engine = HFEngine(policy, slots=3, **{"prefill_tokens": 20, **options})
    lengths = (4, 12, words)

    def observation(most: int) -> str:
        return " ".join(rng.choice(WORDS, size=int(rng.integers(1, most))))

    prompts = [policy.chat.opening(observation(most)) for most in lengths]
    for turn in range(turns):
        replies = engine.generate(prompts, params, [3 * turn + i for i in range(3)])
        for i, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
            worst = max(worst, float(np.abs(np.subtract(reply.logprobs, reread(policy, prompt, reply.ids))).max()))
            prompts[i] = [*prompt, *reply.ids, *policy.chat.turn(observation(lengths[i]))]
    return worst


def reread(policy: Policy, prompt: list[int], reply: tuple[int, ...]) -> list[float]:
    """Log-probabilities of a reply, by the model's own eager forward over the whole episode."""
    model, before = policy.model, policy.model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1]
    model.set_attn_implementation(before)
    return processed_logprobs(logits, SamplingParams()).gather(1, torch.tensor(reply)[:, None])[:, 0].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_engine_equals_a_full_forward_beyond_the_window(family: str) -> None:
    """Replies of each kind of attention have the log-probabilities of the model's own forward."""
    kind, more = FAMILIES[family]
    assert play(miniature(kind, **more)) < 1e-5


def test_a_window_changes_what_is_seen() -> None:
    """The miniatures are long enough that a model without its window gives other replies."""
    policy = miniature("Mistral", sliding_window=WINDOW)
    ids = policy.chat.opening(" ".join(WORDS * 2))
    with torch.no_grad():
        windowed = policy.model(torch.tensor([ids])).logits[0, -1]
        policy.model.config.sliding_window = None
        assert (policy.model(torch.tensor([ids])).logits[0, -1] - windowed).abs().max() > 0.01


def test_other_layers_are_refused_by_name() -> None:
    """Layers that are not attention over the slots, and windows that are masks of a model's own, are refused."""
    policy = miniature("Mistral", sliding_window=WINDOW)
    policy.model.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(PolicyError, match="other layers: linear_attention"):
        HFEngine(policy)
    policy = miniature("Phimoe", sliding_window=WINDOW, num_local_experts=2)
    with pytest.raises(PolicyError, match="its sliding window"):
        HFEngine(policy).generate([[1, 2]], SamplingParams(max_new_tokens=1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_mask_can_be_read_by_a_gpu_kernel(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks begin at multiples of 16 bytes and their rows at multiples of 8 elements, whatever the lengths are."""
    masks, attend = list[Any](), torch.nn.functional.scaled_dot_product_attention

    def watched(query: Any, key: Any, value: Any, **options: Any) -> Any:
        masks.append(options["attn_mask"])
        return attend(query, key, value, **options)

    monkeypatch.setattr(kvcache, "scaled_dot_product_attention", watched)
    policy = miniature("Mistral", sliding_window=30)
    policy.model.to(getattr(torch, dtype))
    play(policy, turns=6)
    given = [mask for mask in masks if mask is not None]
    assert len(given) > 100 and any(mask.shape[-2] > 1 for mask in given)
    for mask in given:
        strides = [stride for stride, size in zip(mask.stride()[:-1], mask.shape[:-1], strict=True) if size > 1]
        assert mask.data_ptr() % 16 == 0 and mask.stride(-1) == 1 and all(stride % 8 == 0 for stride in strides)


@pytest.mark.parametrize("window", [None, 1, 3, 100])
def test_a_causal_mask_hides_what_follows(window: int | None) -> None:
    """A token sees what precedes it, up to the window."""
    for start, count in [(0, 2), (3, 4), (17, 5), (5, 30), (64, 1)]:
        query, key = torch.arange(start, start + count)[:, None], torch.arange(start + count)
        visible = (key <= query) & (key > query - window if window else key >= 0)
        mask = kvcache.causal_mask(start, count, window, torch.float32, torch.device("cpu"))
        assert torch.equal(mask == 0, visible) and torch.equal(mask == -torch.inf, ~visible)


def test_a_mask_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes that go from the same length to the same length share a mask, in all layers."""
    made, make = list[tuple[int, int]](), kvcache.causal_mask

    def counted(start: int, count: int, *rest: Any) -> Any:
        made.append((start, count))
        return make(start, count, *rest)

    monkeypatch.setattr(kvcache, "causal_mask", counted)
    prompts = [[1] * 40 + [2 + n] * 8 for n in range(5)]  # the first is computed whole, without a mask
    HFEngine(miniature("Qwen2"), slots=5).generate(prompts, SamplingParams(max_new_tokens=1))
    assert made == [(40, 8)]


def test_a_plain_llama_has_no_window() -> None:
    """A setting that the model's own attention does not read changes nothing."""
    tokenizer = build_tokenizer([" ".join(WORDS)] * 3, 320)
    policy = Policy(
        build_model(tiny_config(len(tokenizer), hidden_size=64, layers=2, heads=4), 0).eval(), tokenizer, "t"
    )
    policy.model.config.sliding_window = WINDOW
    assert play(policy) < 1e-5


def longrope(**more: Any) -> Policy:
    """A Phi-3 whose rotary factors change beyond 32 tokens."""
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0, 3.0, 4.0, 5.0]}
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 32, **factors}
    return miniature("Phi3", original_max_position_embeddings=32, rope_parameters=rope, pad_token_id=0, **more)


def test_longrope_has_one_set_of_factors() -> None:
    """Episodes that cross the original length, batched with short ones, equal a full forward, in copies too."""
    policy = longrope()
    short = Policy(longrope().model, policy.tokenizer, "short", max_context=32)
    ids = torch.arange(10)[None]
    with torch.no_grad():
        before, other = (each.model(ids).logits for each in (policy, short))
        policy.model(torch.arange(60)[None])
        assert torch.equal(policy.model(ids).logits, before) and not torch.allclose(before, other)
        copies = copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))  # noqa: S301 - its own bytes
        assert all(torch.equal(each.model(ids).logits, before) for each in copies)
    assert play(policy) < 1e-5


def test_dynamic_rope_is_constant_within_the_context() -> None:
    """Its factors grow beyond the model's longest context only, which no episode exceeds."""
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    policy = miniature("Llama", rope_parameters=rope, max_position_embeddings=200)
    assert play(policy) < 1e-5
