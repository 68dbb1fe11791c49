from __future__ import annotations

import copy
import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.engine.server_protocols import PROTOCOLS, Bounds
from agentgym_py.env import EnvSpec
from agentgym_py.errors import PolicyError
from agentgym_py.policy import Policy, logprobs
from agentgym_py.policy.adapters import add_adapters, merged_copy
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples
from agentgym_py.policy.policy import require_reader
from agentgym_py.policy.tokens import encode
from agentgym_py.training.data import prepare
from agentgym_trainers.filtered_bc import FilteredBC


@pytest.fixture(scope="module")
def padded(zoo: Any) -> Policy:
    """A model with more rows than tokens; the additional rows are the likeliest by far."""
    policy: Policy = zoo.miniature("qwen2.5")
    with torch.no_grad():
        policy.model.get_output_embeddings().weight[policy.vocab_size :] *= 20
    return policy


def test_a_row_that_is_no_token_is_never_sampled(padded: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the generic forward nor greedily; the learner computes the sampler's log-probabilities."""
    agent = ModelAgent(padded, HFEngine(padded, slots=4), SamplingParams(max_new_tokens=8))
    episodes = Collector(agent).collect_batch(jobs_for([EnvSpec("maze", {"max_steps": 2})], "train", range(4)))
    ids = [token for t in episodes for step in t.steps if step.tokens for token in step.tokens.ids]
    assert len(ids) >= 16 and max(ids) < padded.vocab_size == len(padded.tokenizer)
    sampled = torch.tensor([x for t in episodes for step in t.steps if step.tokens for x in step.tokens.logprobs])
    samples = [encode(t, padded.chat) for t in episodes]
    for tokens in (logprobs._TOKENS, 2):  # the head at once, and in pieces
        monkeypatch.setattr(logprobs, "_TOKENS", tokens)
        monkeypatch.setattr(logprobs, "_LOGITS", tokens)
        with torch.no_grad():
            learner = [agent_logprobs(agent_logits(padded.model, *pad_samples([sample]))) for sample in samples]
        torch.testing.assert_close(torch.cat(learner), sampled, rtol=1e-4, atol=1e-4)
    greedy = HFEngine(padded).generate([padded.chat.opening("a")], SamplingParams(temperature=0, max_new_tokens=5))
    assert max(greedy[0].ids) < padded.vocab_size


def test_the_fused_llama_leaves_them_out_too(zoo: Any) -> None:
    """A plain Llama takes the other forward."""
    tokenizer = zoo.build_tokenizer(zoo.FAMILIES["qwen2.5"])
    family = replace(zoo.FAMILIES["qwen2.5"], config="Llama", settings={"tie_word_embeddings": False})
    policy = Policy(zoo.build_model(family, tokenizer), tokenizer, "llama")
    with torch.no_grad():
        policy.model.lm_head.weight[policy.vocab_size :] *= 20
    (reply,) = HFEngine(policy).generate([policy.chat.opening("a")], SamplingParams(max_new_tokens=20), [0])
    assert max(reply.ids) < policy.vocab_size


def test_copies_and_adapters_keep_the_number(padded: Policy) -> None:
    """Another process, a copy, adapters and a merged model sample from the same rows."""
    adapted = copy.deepcopy(padded)
    adapted.model = add_adapters(adapted.model, 2, 0)
    again = pickle.loads(pickle.dumps(padded))  # noqa: S301  # made here
    assert adapted.vocab_size == again.vocab_size == padded.vocab_size
    again = pickle.loads(pickle.dumps(adapted))  # noqa: S301  # made here
    adapted.model = merged_copy(adapted.model)
    assert adapted.vocab_size == again.vocab_size == padded.vocab_size


def test_a_record_with_such_an_id_is_our_own(padded: Policy) -> None:
    """An older record holds an id behind the last token: the episode is trained on, that token is not."""
    agent = ModelAgent(padded, HFEngine(padded), SamplingParams(max_new_tokens=4))
    (episode,) = Collector(agent).collect_batch(jobs_for([EnvSpec("maze", {"max_steps": 1})], "train", [0]))
    (step,) = episode.steps
    assert step.tokens
    ids = (padded.vocab_size, *step.tokens.ids)
    tokens = replace(step.tokens, ids=ids, logprobs=(-1.0,) * len(ids), mask=(1,) * len(ids))
    data = prepare(padded, [replace(episode, steps=(replace(step, tokens=tokens),))], 4096)
    assert not data.dropped and sum(data.samples[0].mask) == len(step.tokens.ids)
    outside = replace(tokens, ids=(padded.model.config.vocab_size, *step.tokens.ids))
    data = prepare(padded, [replace(episode, steps=(replace(step, tokens=outside),))], 4096)
    assert not data.samples and next(iter(data.dropped)).startswith("in another tokenizer's tokens")


def test_servers_are_told_which_rows_are_no_tokens() -> None:
    """Each protocol has its own way to say it; without such rows nothing is sent."""
    params = SamplingParams()
    for bounds, rows in ((Bounds(9, (3,), range(7, 9)), ["7", "8"]), (Bounds(9, (3,)), [])):
        bodies: dict[str, Any] = {kind: PROTOCOLS[kind].body([1], params, bounds, 0) for kind in PROTOCOLS}
        biases = [bodies["vllm"], bodies["sglang"]["sampling_params"]]
        assert all(list(body.get("logit_bias", {})) == rows for body in biases)
        assert [str(row) for row, allowed in bodies["llamacpp"].get("logit_bias", []) if not allowed] == rows


def test_more_tokens_than_embeddings_are_refused(zoo: Any, tmp_path: Path) -> None:
    """When the folder is opened, with both numbers."""
    tokenizer = zoo.build_tokenizer(zoo.FAMILIES["qwen2.5"])
    zoo.build_model(replace(zoo.FAMILIES["qwen2.5"], padding_rows=-2), tokenizer).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    n = len(tokenizer)
    with pytest.raises(PolicyError, match=f"has {n} tokens and the model {n - 2} embeddings: resize"):
        Policy.load(tmp_path, device="cpu")


# ---- tokenizers and models without a padding or an end token ---------------------------------------------------------

END = "<|im_end|>"
SPECIAL: dict[str, dict[str, Any]] = {
    "no padding": {"pad": None, "pad_id": None}, "no end": {"eos": None}, "neither": {"eos": None, "pad": None},
    "the end of turn is the padding": {"eos": END, "pad": END, "pad_id": 258},
    "a padding that is no row": {"pad_id": 10**6}, "a padding of -1": {"pad_id": -1},
}  # fmt: skip


@pytest.mark.parametrize("kind", SPECIAL)
def test_padding_and_end_change_nothing(kind: str, zoo: Any, tmp_path: Path) -> None:
    """Replies and trained weights are those of the family's own tokenizer and configuration, and it saves and opens."""
    family, how = zoo.FAMILIES["qwen2.5"], SPECIAL[kind]
    usual = zoo.build_tokenizer(family)
    names = {name: how[name] for name in ("eos", "pad") if name in how}
    zoo.build_model(family, usual).save_pretrained(tmp_path / "usual")
    usual.save_pretrained(tmp_path / "usual")
    shutil.copytree(tmp_path / "usual", tmp_path / "other")
    zoo.build_tokenizer(replace(family, **names)).save_pretrained(tmp_path / "other")
    path = tmp_path / "other" / "config.json"
    config = json.loads(path.read_text()) | ({"pad_token_id": how["pad_id"]} if "pad_id" in how else {})
    path.write_text(json.dumps(config))
    demos = Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec("maze", {"max_steps": 3})], "train", range(2)))
    params, digests, replies = SamplingParams(temperature=0.0, max_new_tokens=6), [], []
    for folder in ("usual", "other"):
        policy = Policy.load(tmp_path / folder, device="cpu")
        prompts = [policy.chat.opening("Hello, you."), policy.chat.opening("a")]
        replies.append([reply.ids for reply in HFEngine(policy).generate(prompts, params)])
        FilteredBC(epochs=1, threshold=-1.0).train(policy, demos, seed=0, output_dir=tmp_path / "training")
        policy.save(tmp_path / f"{folder}-trained")
        digests.append(Policy.load(tmp_path / f"{folder}-trained", device="cpu").digest())
    assert replies[0] == replies[1] and digests[0] == digests[1]


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_a_saved_tokenizer_opens_as_it_was(lora_rank: int, zoo: Any, tmp_path: Path) -> None:
    """Qwen2's own class would add <|endoftext|>, for which the model has no row."""
    family = replace(zoo.FAMILIES["qwen2.5"], special=("<|im_start|>", "<|im_end|>"), pad=None, ends=(), padding_rows=0)
    tokenizer = zoo.build_tokenizer(family)
    policy = Policy(zoo.build_model(family, tokenizer), tokenizer, "qwen2 without <|endoftext|>")
    if lora_rank:
        policy.model = add_adapters(policy.model, lora_rank, 0)
    policy.save(tmp_path / "saved")
    again = Policy.load(tmp_path / "saved", device="cpu")
    assert again.tokenizer.get_vocab() == tokenizer.get_vocab() and again.vocab_size == policy.vocab_size
    require_reader(tmp_path / "saved", policy, "the teacher")
