"""The language-model head in pieces: the numbers of the whole, and one piece of logits in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

from agentgym_py.policy import logprobs
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, agent_logprobs_and_hits
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.policy.vocabulary import vocab_size_of
from agentgym_py.testing.zoo import SUPPORTED
from agentgym_py.training.memory_plan.tracing import LiveBytes
from agentgym_py.training.optimization import Optimization
from agentgym_py.training.rl.actor_critic import ActorCritic
from agentgym_py.training.settings import OptimizerSettings

WORDS, PIECE = 97, 3
WIDE = {"rtol": 0.05, "atol": 0.05}
"""Tolerance of gradients that are rounded to bfloat16."""
SIZES = {
    "vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {}, "Qwen2": {"tie_word_embeddings": True}, "Gemma2": {"final_logit_softcapping": 3.0, "head_dim": 8},
    "Granite": {"logits_scaling": 4.0}, "HyperCLOVAX": {"logits_scaling": 0.25}, "Cohere": {"logit_scale": 0.25},
    "Phi": {}, "GPT2": {"n_embd": 16, "n_head": 2, "n_layer": 1}, "Mixtral": {"num_local_experts": 2},
}  # fmt: skip
"""Models whose logits follow from the head in different ways: Phi's head has a bias, Granite divides its logits by
`logits_scaling`, HyperCLOVA X multiplies them by it; and models whose layers return more than states."""


def model_of(family: str) -> Any:
    """A miniature of random weights."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SIZES, **FAMILIES[family], initializer_range=0.3)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def batch() -> tuple[Any, Any]:
    """Two rows with 8 and 5 agent tokens."""
    ids = torch.randint(4, WORDS, (2, 14), generator=torch.Generator().manual_seed(1))
    labels = torch.full_like(ids, IGNORED)
    labels[0, 3:11], labels[1, 4:9] = ids[0, 3:11], ids[1, 4:9]
    return ids, labels


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The head runs on three tokens at a time."""
    monkeypatch.setattr(logprobs, "_TOKENS", PIECE)
    monkeypatch.setattr(logprobs, "_LOGITS", PIECE * WORDS)
    yield


def outputs(model: Any) -> list[Any]:
    """What offline and on-policy trainers compute of the batch, and the gradient of a sum of it."""
    model.zero_grad()
    numbers = [*agent_logprobs_and_hits(agent_logits(model, *batch()))]
    out = ActorCritic(model, critic=False, temperature=0.7)(*batch())
    numbers += [out.logps_N, out.entropy_N]
    weights = torch.linspace(-1, 1, len(out.logps_N))
    torch.autograd.backward((numbers[0] * weights).sum() + (out.logps_N * weights).sum() + 0.1 * out.entropy_N.sum())
    return numbers + [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_have_the_numbers_of_the_whole(family: str, request: pytest.FixtureRequest) -> None:
    """Log-probabilities, hits, entropies and gradients agree up to rounding, whatever follows the head."""
    model = model_of(family)
    whole = [x.detach().clone() for x in outputs(model)]
    request.getfixturevalue("in_pieces")
    assert agent_logits(model, *batch()).logits_NV is None
    for one, other in zip(whole, outputs(model), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=5e-6)


def test_adapters_on_the_head_count(request: pytest.FixtureRequest) -> None:
    """LoRA on the head is part of the pieces, and gets the same gradient."""
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["lm_head", "q_proj"], init_lora_weights=False)
    model = peft.get_peft_model(model_of("Llama"), config)
    whole = [x.detach().clone() for x in outputs(model)]
    request.getfixturevalue("in_pieces")
    for one, other in zip(whole, outputs(model), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("family", SUPPORTED)
def test_every_family_runs_in_pieces(family: str, zoo: Any, in_pieces: None) -> None:
    """Log-probabilities are those of the model's own forward pass, and the model is left as it was."""
    model = zoo.miniature(family).model
    attributes, (ids, labels) = set(vars(model.base_model)), batch()
    with torch.no_grad():
        agent = agent_logits(model, ids, labels)
        own = model(input_ids=ids).logits[:, :-1][labels[:, 1:] != IGNORED]
    assert agent.logits_NV is None and set(vars(model.base_model)) == attributes
    expected = own[:, : vocab_size_of(model)].log_softmax(-1).gather(-1, agent.targets_N[:, None])[:, 0]
    torch.testing.assert_close(agent_logprobs(agent), expected, rtol=0, atol=1e-5)


def test_logits_that_depend_on_more_than_states_stay_in_one_piece(request: pytest.FixtureRequest) -> None:
    """They are never wrong: a warning says that memory grows with the batch, and later batches are not tried."""
    model = model_of("Gemma2")
    forward, calls = type(model).forward, list[int]()

    def by_ids(input_ids: Any = None, **kwargs: Any) -> Any:
        output = forward(model, input_ids, **kwargs)
        calls.append(output.logits.shape[1])
        output.logits = output.logits * (1 if input_ids is None else 2)
        return output

    model.forward = by_ids
    whole = agent_logprobs(agent_logits(model, *batch()))
    request.getfixturevalue("in_pieces")
    with pytest.warns(UserWarning, match=r"Gemma2ForCausalLM do not follow from its head alone.*13 x 97 logits"):
        assert agent_logprobs(agent_logits(model, *batch())).equal(whole)
    calls.clear()
    assert agent_logprobs(agent_logits(model, *batch())).equal(whole) and len(calls) == 1


class HeadSized(LiveBytes):  # type: ignore[no-untyped-call]  # torch is untyped here
    """Counts the tensors that are alive and as large as a head's weight."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def _add(self, storage: Any) -> None:
        if storage.nbytes() == self.size:
            super()._add(storage)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["qwen2.5", "mistral"])
def test_pieces_add_their_gradients_up_in_one_tensor(
    family: str, dtype: str, zoo: Any, request: pytest.FixtureRequest
) -> None:
    """With tied embeddings and without; two batches give the gradient of one piece, beside one that is being added."""
    policy = zoo.miniature(family, dtype)
    optimization = Optimization(policy, OptimizerSettings(), seed=0)

    def backward() -> list[Any]:
        optimization.backend.zero_grad()
        for _ in range(2):
            torch.autograd.backward(agent_logprobs(agent_logits(policy.model, *batch())).sum())
        return [p.grad for _, p in optimization.trained()]

    whole = [gradient.clone() for gradient in backward()]
    request.getfixturevalue("in_pieces")
    for one, other in zip(whole, backward(), strict=True):
        torch.testing.assert_close(other, one, **({"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else WIDE))
    weight = optimization._masters.of(policy.model.get_output_embeddings().weight)
    with HeadSized(weight.nbytes) as counted:
        backward()
    own = 1 if policy.model.config.tie_word_embeddings else 2
    assert counted.peak == (own + 1) * weight.nbytes
    optimization.close()


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch is untyped here
    """Notes the most rows of logits that any operation returns; a gradient of the head has as many as a state."""

    rows = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor) and tensor.dim() == 2 and tensor.shape[-1] == WORDS:
                self.rows = max(self.rows, tensor.shape[0] if tensor.shape[0] != SIZES["hidden_size"] else 0)
        return out


def test_one_piece_is_in_memory(in_pieces: None) -> None:
    """No operation of the forward or the backward pass returns logits of more tokens than a piece has."""
    model = model_of("Llama")
    with Largest() as largest:  # type: ignore[no-untyped-call]
        outputs(model)
    assert largest.rows == PIECE


def test_few_tokens_are_one_piece(tiny_policy: Any) -> None:
    """The tiny model's batches keep the head of the model's own forward pass, and so their bits."""
    ids, labels = batch()
    assert agent_logits(tiny_policy.model, ids, labels).logits_NV is not None
    assert logprobs._LOGITS // tiny_policy.model.config.vocab_size > 16_384
