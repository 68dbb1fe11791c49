"""Episodes through a model server are those of the engine here, and what goes wrong on the way is no evidence."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("httpx2")
fastapi = pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
torch = pytest.importorskip("torch")

from agentgym_py import http_client
from agentgym_py.agents import ModelAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams, ServerEngine
from agentgym_py.engine.decoding import processed_logprobs
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, EndpointError, PolicyError
from agentgym_py.evaluation import summarise
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import add_adapters
from agentgym_py.policy.tiny import build_model, build_tokenizer, tiny_config
from agentgym_py.testing.model_server import ModelServer, serving
from agentgym_py.trajectory import Trajectory

KINDS: list[Any] = ["vllm", "sglang", "llamacpp"]
SHORT = SamplingParams(temperature=0, max_new_tokens=10)
LOADS = ("collective_rpc", "update_weights_from_disk", "load_lora_adapter", "unload_lora_adapter")
BROKEN = fastapi.Response("\x00", 200, {"content-length": "100"})
"""An answer whose connection ends before it does."""


def random_policy(seed: int = 0, vocabulary: int = 320) -> Policy:
    """A model whose likeliest tokens are no ties, and whose replies differ in length."""
    words = "go north open the red door take key you see a page 12"
    if vocabulary > 320:
        words += " ".join(f"{a}{b}" for a in ("lo", "mi", "nu", "pa", "que") for b in ("ra", "ste", "to", "vu", "xe"))
    tokenizer = build_tokenizer([words] * 3, vocabulary)
    config = tiny_config(len(tokenizer), hidden_size=64, layers=2, heads=4)
    config.initializer_range = 0.25
    policy = Policy(build_model(config, seed).eval(), tokenizer, "small")
    with torch.no_grad():
        policy.model.get_input_embeddings().weight[policy.chat.end_of_turn] *= 1.6
    return policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    """Here and there."""
    return random_policy()


@pytest.fixture
def server(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that holds it; what fails is soon asked again."""
    monkeypatch.delenv(http_client.KEY, raising=False)
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.02)
    with serving(ModelServer(policy)) as made:
        yield made


def play(engine: Any, policy: Policy, params: SamplingParams = SHORT, *, tasks: int = 6) -> list[Trajectory]:
    """Episodes of a few turns in a maze."""
    env = EnvSpec("maze", {"difficulty": "easy", "max_steps": 4})
    return Collector(ModelAgent(policy, engine, params), PlayConfig(seed=3)).collect_batch(
        jobs_for(env, "train", range(tasks))
    )


def tokens(played: list[Trajectory]) -> list[Any]:
    """Context and reply of each turn, in ids."""
    return [(step.tokens.context, step.tokens.ids) for t in played for step in t.steps if step.tokens]


def logprobs(played: list[Trajectory]) -> list[float]:
    """Of every sampled token."""
    return [each for t in played for step in t.steps if step.tokens for each in step.tokens.logprobs]


@pytest.fixture(scope="module")
def here(policy: Policy) -> list[Trajectory]:
    """Greedy episodes of the engine in this process; only read them."""
    return play(HFEngine(policy), policy)


# ---- token for token ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_episodes_are_those_of_the_engine_here(
    server: ModelServer, policy: Policy, here: list[Trajectory], kind: Any
) -> None:
    """Token for token over four turns, some of them cut; log-probabilities to 1e-4."""
    there = play(ServerEngine(policy, server.url, kind), policy)
    assert tokens(there) == tokens(here) and len(tokens(there)) == 24
    assert logprobs(there) == pytest.approx(logprobs(here), abs=1e-4)
    ends = {step.tokens.ids[-1] == policy.chat.end_of_turn for t in there for step in t.steps if step.tokens}
    assert ends == {True, False}
    first = there[0].provenance
    assert first.policy_digest == policy.digest() and first.sampling["engine"] == kind
    assert server.max_live > 1


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_replies_come_again_with_their_log_probabilities(
    server: ModelServer, policy: Policy, here: list[Trajectory], kind: Any
) -> None:
    """The seeds are the episodes' own; what is stored is what a forward over the whole history says."""
    engine, params = ServerEngine(policy, server.url, kind), SamplingParams(temperature=0.7, max_new_tokens=8)
    played = play(engine, policy, params)
    assert tokens(play(engine, policy, params)) == tokens(played) != tokens(here)
    for trajectory in played:
        history: list[int] = []
        for step in trajectory.steps:
            assert step.tokens is not None
            history += [*step.tokens.context, *step.tokens.ids]
            with torch.no_grad():
                logits = policy.model(torch.tensor([history])).logits[0, -len(step.tokens.ids) - 1 : -1]
            said = processed_logprobs(logits, params)
            own = [float(row[token]) for row, token in zip(said, step.tokens.ids, strict=True)]
            assert step.tokens.logprobs == pytest.approx(own, abs=1e-4)


@pytest.mark.parametrize("kind", ["vllm", "llamacpp"])
def test_truncated_sampling_is_said_as_it_was_drawn(server: ModelServer, policy: Policy, kind: Any) -> None:
    """Log-probabilities after `top_k` and `top_p`; SGLang has none."""
    params = SamplingParams(temperature=1.0, top_k=3, top_p=0.9, max_new_tokens=8)
    prompt = policy.chat.opening("go")
    (there,) = ServerEngine(policy, server.url, kind).generate([prompt], params, [5])
    (here,) = HFEngine(policy).generate([prompt], params, [5])
    assert there.ids == here.ids and there.logprobs == pytest.approx(here.logprobs, abs=1e-4)
    with pytest.raises(ConfigError, match="sglang gives no log-probabilities after top_k and top_p"):
        ServerEngine(policy, server.url, "sglang").generate([prompt], params)


def test_what_goes_on_behind_the_end_of_a_turn_is_cut(server: ModelServer, policy: Policy) -> None:
    """Where a server does not stop there."""
    end = policy.chat.end_of_turn

    def goes_on(answer: dict[str, Any]) -> Any:
        (choice,) = answer["choices"]
        choice["token_ids"] = [*choice["token_ids"][:2], end, 7]
        choice["logprobs"]["token_logprobs"] = [*choice["logprobs"]["token_logprobs"][:2], -0.5, -0.25]
        return answer

    engine = ServerEngine(policy, server.url)
    server.spoil = goes_on
    (reply,) = engine.generate([policy.chat.opening("go")], SHORT)
    assert reply.ids[-1] == end and len(reply.ids) == len(reply.logprobs) <= 3 and reply.finish_reason == "stop"


def test_a_reply_that_the_server_ended_is_not_cut(server: ModelServer, policy: Policy) -> None:
    """A model file may name an end that the policy does not know; the same ids at the limit are a cut reply."""
    engine, prompt = ServerEngine(policy, server.url, "llamacpp"), policy.chat.opening("hi")
    token = next(token for token in range(5, 50) if token not in policy.ends)
    probabilities = [{"id": token, "logprob": -1.0}] * 2
    for stop_type, reason in (("eos", "stop"), ("limit", "length")):
        answer = {
            "content": "", "tokens": [token] * 2, "completion_probabilities": probabilities, "stop_type": stop_type,
            "tokens_evaluated": len(prompt),
        }  # fmt: skip
        server.script = [fastapi.responses.JSONResponse(answer)]
        (reply,) = engine.generate([prompt], SHORT)
        assert (reply.ids, reply.finish_reason) == ((token, token), reason)


def test_no_reply_waits_for_another(server: ModelServer, policy: Policy) -> None:
    """An episode whose server hangs for five seconds keeps the others from nothing."""
    engine = ServerEngine(policy, server.url, concurrency=4)
    play(engine, policy, tasks=1)  # worlds and tokenizer are warm
    server.script = [5.0]
    began, ended = time.monotonic(), []
    collector = Collector(ModelAgent(policy, engine, SHORT))
    for _, trajectory in collector.stream(jobs_for(EnvSpec("maze", {"max_steps": 3}), "train", range(4))):
        ended.append(time.monotonic() - began)
        assert trajectory.error is None and len(trajectory.steps) == 3
    assert ended[2] < 5.0 < ended[3]


def test_so_many_requests_at_once_and_no_more(server: ModelServer, policy: Policy) -> None:
    """Whatever the number of live episodes."""

    def late(answer: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.02)  # others have time to come
        return answer

    engine = ServerEngine(policy, server.url, concurrency=3)
    server.max_live, server.spoil = 0, late
    play(engine, policy, tasks=12)
    assert server.max_live == 3


# ---- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_the_server_plays_the_new_weights_after_a_sync(
    server: ModelServer, policy: Policy, here: list[Trajectory], kind: Any
) -> None:
    """And is given those of the policy at the start, whatever it held."""
    server.set_policy(random_policy(1))
    engine = ServerEngine(policy, server.url, kind)
    before = play(engine, policy)
    assert tokens(before) == tokens(here) and not engine.load_obstacle
    other = random_policy(2)
    engine.sync(other, 1)
    after = play(engine, other)
    assert tokens(after) == tokens(play(HFEngine(other), other)) != tokens(before)
    assert engine.digest == other.digest() == after[0].provenance.policy_digest and engine.mismatch < 1e-4
    loads = [path for path, _ in server.bodies if path in ("/collective_rpc", "/update_weights_from_disk")]
    assert engine.for_policy(other) is engine and len(loads) == 2
    assert engine.for_policy(policy).digest == policy.digest()


def test_weights_go_through_a_folder_that_may_be_named(server: ModelServer, policy: Policy, tmp_path: Any) -> None:
    """The server is told the whole path."""
    ServerEngine(policy, server.url, weights=str(tmp_path / "seen"))
    told = [body["kwargs"]["weights_path"] for path, body in server.bodies if path == "/collective_rpc"]
    assert told == [str(tmp_path / "seen" / "weights")] and Policy.load(told[0]).digest() == policy.digest()


@pytest.mark.parametrize("why", ["no endpoint", "no means", "push"])
def test_a_server_that_loads_nothing_plays_what_it_holds(
    server: ModelServer, policy: Policy, here: list[Trajectory], why: str
) -> None:
    """It is never asked to play other weights, and says why."""
    server.loads = why != "no endpoint"
    engine = ServerEngine(policy, server.url, "llamacpp" if why == "no means" else "vllm", push=why != "push")
    said = {
        "no endpoint": "VLLM_SERVER_DEV_MODE=1", "no means": "cannot load other weights", "push": "push is false",
    }[why]  # fmt: skip
    assert said in engine.load_obstacle and tokens(play(engine, policy)) == tokens(here)
    engine.sync(copy.deepcopy(policy), 1)
    with pytest.raises(PolicyError, match=f"still has old weights: .*{said}"):
        engine.sync(random_policy(1), 2)


def test_old_weights_are_refused_again(server: ModelServer, policy: Policy) -> None:
    """After a first refusal, too, and although the new ones differ by less than the tolerance."""
    engine, near = ServerEngine(policy, server.url, push=False), copy.deepcopy(policy)
    with torch.no_grad():
        near.model.get_input_embeddings().weight[0] += 1e-6
    assert near.digest() != policy.digest()
    for _ in range(2):
        with pytest.raises(PolicyError, match="still has old weights"):
            engine.sync(near, 1)
    assert engine.for_policy(policy).digest == policy.digest()


def adapted_policy(policy: Policy, seed: int) -> Policy:
    """The policy with random LoRA adapters."""
    adapted = copy.deepcopy(policy)
    adapted.model = add_adapters(adapted.model, 2, seed).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in adapted.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.2)
    return adapted


def loaded(server: ModelServer) -> list[tuple[str, str]]:
    """What the server was asked to load or unload: the path's last word, and the name."""
    words = [(path.rpartition("/")[2], body.get("lora_name", "")) for path, body in server.bodies]
    return [(word, name) for word, name in words if word in LOADS]


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("sync_weights", ["auto", "lora"])
def test_adapters_are_loaded_beside_the_weights(
    server: ModelServer, policy: Policy, kind: Any, sync_weights: Any
) -> None:
    """Each sync loads them by a new name, which requests carry, and unloads the last; their base is not sent again."""
    server.loads_adapters, server.loads = True, sync_weights == "auto"
    engine = ServerEngine(policy, server.url, kind, sync_weights=sync_weights)
    before = tokens(play(engine, policy, tasks=1))
    server.bodies.clear()
    for version in (1, 2):
        adapted = adapted_policy(policy, version)
        engine.sync(adapted, version)
        played = play(engine, adapted, tasks=1)
        assert tokens(played) == tokens(play(HFEngine(adapted), adapted, tasks=1)) != before
        assert engine.digest == adapted.digest() and engine.mismatch < 1e-4 and not engine.load_obstacle
    first, second = (name for word, name in loaded(server) if word == "load_lora_adapter")
    assert loaded(server) == [
        ("load_lora_adapter", first), ("load_lora_adapter", second), ("unload_lora_adapter", first),
    ]  # fmt: skip
    body = dict(server.bodies)["/v1/completions" if kind == "vllm" else "/generate"]
    assert body["model" if kind == "vllm" else "lora_path"] == second != first and list(server.adapted) == [second]


def test_adapters_on_another_base_bring_it_along(server: ModelServer, policy: Policy) -> None:
    """Their base is loaded first."""
    server.loads_adapters = True
    engine, other = ServerEngine(policy, server.url), adapted_policy(random_policy(3), 0)
    server.bodies.clear()
    engine.sync(other, 1)
    assert [word for word, _ in loaded(server)] == ["collective_rpc", "load_lora_adapter"]
    assert tokens(play(engine, other, tasks=1)) == tokens(play(HFEngine(other), other, tasks=1))
    engine.sync(policy, 2)
    assert "model" not in engine_request(server, engine, policy)
    assert tokens(play(engine, policy, tasks=1)) == tokens(play(HFEngine(policy), policy, tasks=1))


def engine_request(server: ModelServer, engine: ServerEngine, policy: Policy) -> dict[str, Any]:
    """Return the body of one more request."""
    engine.generate([policy.chat.opening("go")], SHORT, [0])
    return server.bodies[-1][1]


@pytest.mark.parametrize("sync_weights", ["auto", "full"])
def test_a_server_without_adapters_gets_merged_weights(server: ModelServer, policy: Policy, sync_weights: Any) -> None:
    """As it does if it is told so."""
    server.loads_adapters = sync_weights == "full"
    engine, adapted = ServerEngine(policy, server.url, sync_weights=sync_weights), adapted_policy(policy, 1)
    for version in (1, 2):
        engine.sync(adapted, version)
        assert tokens(play(engine, adapted, tasks=1)) == tokens(play(HFEngine(adapted), adapted, tasks=1))
    assert [word for word, _ in loaded(server)].count("load_lora_adapter") == (sync_weights == "auto")
    assert "model" not in engine_request(server, engine, adapted)


def test_a_server_that_must_load_adapters_and_cannot_is_refused(server: ModelServer, policy: Policy) -> None:
    """With how to start it; so are other weights without adapters."""
    engine = ServerEngine(policy, server.url, sync_weights="lora")
    with pytest.raises(EndpointError, match=r"does not load adapters: .*--enable-lora"):
        engine.sync(adapted_policy(policy, 1), 1)
    engine = ServerEngine(policy, server.url, sync_weights="lora")
    with pytest.raises(PolicyError, match="sync_weights is lora, and these weights have no adapters"):
        engine.sync(random_policy(1), 1)
    with pytest.raises(EndpointError, match="server cannot load adapters"):
        ServerEngine(policy, server.url, "llamacpp", sync_weights="lora").sync(adapted_policy(policy, 1), 1)
    with pytest.raises(ConfigError, match="sync_weights must be one of auto, full, lora"):
        ServerEngine(policy, server.url, sync_weights="half")  # type: ignore[arg-type]


def test_a_server_that_only_says_that_it_loaded_is_noticed(server: ModelServer, policy: Policy) -> None:
    """Its log-probabilities are the old weights'."""
    engine = ServerEngine(policy, server.url)
    server.stale = True
    with pytest.raises(PolicyError, match=r"does not serve 'small': its log-probabilities differ by \S+ on average"):
        engine.sync(random_policy(1), 1)


def test_what_is_amiss_by_more_than_at_first_is_noticed(server: ModelServer, policy: Policy) -> None:
    """As where a server leaves one layer as it was: far less than what rounding may do somewhere else."""

    def nearly(answer: dict[str, Any]) -> Any:
        said = answer["choices"][0]["logprobs"]
        said["token_logprobs"] = [each - 0.01 for each in said["token_logprobs"]]
        return answer

    engine = ServerEngine(policy, server.url)
    server.spoil = nearly
    with pytest.raises(PolicyError, match=r"0\.01 on average \(tolerance 0\.001\)"):
        engine.sync(random_policy(1), 1)
    assert ServerEngine(policy, server.url).mismatch == pytest.approx(0.01, rel=1e-2)


def test_a_policy_whose_log_probabilities_are_no_numbers_is_refused(server: ModelServer, policy: Policy) -> None:
    """They equal nothing."""
    broken = copy.deepcopy(policy)
    with torch.no_grad():
        next(iter(broken.model.parameters())).fill_(float("nan"))
    with pytest.raises(PolicyError, match="differ by nan on average"):
        ServerEngine(broken, server.url, push=False)


@pytest.mark.parametrize("held", ["other weights", "another tokenizer", "a larger vocabulary", "a smaller one"])
def test_a_server_with_another_model_is_refused(server: ModelServer, policy: Policy, held: str) -> None:
    """Before the first episode."""
    other = {
        "other weights": (1, 320), "another tokenizer": (0, 320), "a larger vocabulary": (0, 360),
        "a smaller one": (0, 270),
    }[held]  # fmt: skip
    server.set_policy(random_policy(*other))
    if held == "another tokenizer":  # the same tokens under other numbers
        with torch.no_grad():
            weight = server.policy.model.get_input_embeddings().weight
            weight[4:] = weight[4:].flip(0).clone()
        server.set_policy(server.policy)
    server.loads = False
    with pytest.raises((PolicyError, EndpointError), match=r"does not serve 'small'|out of vocabulary"):
        ServerEngine(policy, server.url)


@pytest.mark.parametrize("gone", [BROKEN, fastapi.Response(status_code=502)], ids=["broken", "behind a proxy"])
def test_a_server_that_comes_back_with_its_first_weights_is_noticed(
    server: ModelServer, policy: Policy, gone: Any
) -> None:
    """It was gone for a moment; after that it is asked for its log-probabilities again."""
    engine = ServerEngine(policy, server.url)
    server.script = [gone]
    assert all(each.error is None for each in play(engine, policy, tasks=2))
    server.set_policy(random_policy(1))
    server.script = [gone]
    with pytest.raises(PolicyError, match="does not serve 'small'"):
        play(engine, policy, tasks=2)


def test_no_reply_is_taken_before_it_is_known_whose_it_is(server: ModelServer, policy: Policy) -> None:
    """Those that come while the server is asked again wait for what is found; a lost question is asked again."""
    engine, prompt = ServerEngine(policy, server.url, retries=1), policy.chat.opening("go")
    server.set_policy(random_policy(1))
    server.script = [fastapi.Response(status_code=502), None] + [fastapi.Response(status_code=500)] * 8
    assert engine.generate([prompt], SHORT, [1])[0].error is not None
    server.script = []
    with pytest.raises(PolicyError, match="does not serve 'small'"):
        engine.generate([prompt], SHORT, [1])

    async def outcomes() -> list[Any]:
        asked = [engine.answer(prompt, SHORT, seed) for seed in range(12)]
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [type(each) for each in http_client.run_in_loop(outcomes())] == [PolicyError] * 12
    server.set_policy(policy)
    assert all(each.error is None for each in http_client.run_in_loop(outcomes()))


# ---- what a server must give ----------------------------------------------------------------------------------------


def test_a_server_without_token_ids_is_refused(server: ModelServer, policy: Policy) -> None:
    """Text is never encoded again."""

    def text_alone(answer: dict[str, Any]) -> Any:
        del answer["choices"][0]["token_ids"], answer["choices"][0]["prompt_token_ids"]
        return answer

    server.spoil = text_alone
    with pytest.raises(EndpointError, match=r"gives no token ids \(`return_token_ids`\)"):
        ServerEngine(policy, server.url)


def test_a_server_that_reads_another_prompt_is_refused(server: ModelServer, policy: Policy) -> None:
    """One that puts a token of its own before it, say."""

    def reads(answer: dict[str, Any]) -> Any:
        answer["choices"][0]["prompt_token_ids"].insert(0, 1)
        return answer

    server.spoil = reads
    with pytest.raises(EndpointError, match="received other token ids"):
        ServerEngine(policy, server.url)


def test_log_probabilities_of_another_distribution_are_refused(server: ModelServer, policy: Policy) -> None:
    """Those before the temperature are right at temperature 1 and for greedy replies only."""
    server.plain = True
    engine, prompt = ServerEngine(policy, server.url), policy.chat.opening("go")
    for temperature in (0.0, 1.0):
        params = SamplingParams(temperature=temperature, max_new_tokens=8)
        (there,), (here,) = (each.generate([prompt], params, [1]) for each in (engine, HFEngine(policy)))
        assert there.logprobs == pytest.approx(here.logprobs, abs=1e-4)
    with pytest.raises(ConfigError, match="--logprobs-mode processed_logprobs"):
        play(engine, policy, SamplingParams(temperature=0.5, max_new_tokens=8))


def test_a_shorter_context_is_refused(server: ModelServer, policy: Policy) -> None:
    """The policy's episodes would not fit."""
    engine = ServerEngine(policy, server.url)
    said = {"error": {"message": "This model's maximum context length is 16 tokens"}}
    server.script = [fastapi.responses.JSONResponse(said, 400)]
    with pytest.raises(EndpointError, match=rf"shorter context .* start it with {policy.max_length} tokens"):
        play(engine, policy)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "vlm"}, "kind must be one of vllm, sglang, llamacpp, got 'vlm'"),
        ({"base_url": "localhost:8000"}, "base_url must be an address"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(policy: Policy, settings: dict[str, Any], said: str) -> None:
    """Before anything is sent."""
    given: dict[str, Any] = {"policy": policy, "base_url": "http://127.0.0.1:9"} | settings
    with pytest.raises(ConfigError, match=said):
        ServerEngine(**given)


def test_prompts_that_no_reply_fits_behind_are_refused(server: ModelServer, policy: Policy) -> None:
    """As by the engine here."""
    engine = ServerEngine(policy, server.url)
    for prompt in ([], [5] * policy.max_length):
        with pytest.raises(ConfigError, match=f"a prompt of {len(prompt)} tokens"):
            engine.generate([prompt], SHORT)
    with pytest.raises(ConfigError, match="2 prompts need as many seeds, got 1"):
        engine.generate([[5], [6]], SHORT, [1])


# ---- faults ---------------------------------------------------------------------------------------------------------


ABORTED = fastapi.responses.JSONResponse({"choices": [{"finish_reason": "abort", "token_ids": [5]}]})


@pytest.mark.parametrize(
    "fault",
    [fastapi.Response(status_code=500), fastapi.Response(status_code=503), BROKEN, ABORTED, 30.0],
    ids=["500", "503", "cut", "aborted", "slow"],
)
def test_what_fails_for_now_is_asked_again(server: ModelServer, policy: Policy, fault: Any) -> None:
    """The same request: no episode shows it."""
    engine = ServerEngine(policy, server.url, timeout=2.0)
    server.script = [fault, None, fault, fault]
    assert tokens(play(engine, policy)) == tokens(play(HFEngine(policy), policy)) and not server.script


def test_a_request_that_stays_unanswered_is_no_evidence(server: ModelServer, policy: Policy) -> None:
    """Its episode alone ends, with an infrastructure failure that says why, and counts for nothing."""
    engine = ServerEngine(policy, server.url, timeout=3.0, retries=0, concurrency=1)
    server.script = [None, 30.0]
    played = play(engine, policy)
    (lost,) = [each for each in played if each.error]
    assert lost.error == f"the vllm server at {server.url[:-3]} gave no answer: no answer within 3 s (attempts: 1)"
    said = summarise(played)
    assert said.errors == 1 and said.success.n == 5 and not lost.success


def test_a_server_that_breaks_ends_it(server: ModelServer, policy: Policy) -> None:
    """Five requests in a row without an answer are no bad luck; nobody is there either."""
    engine = ServerEngine(policy, server.url, retries=0)
    server.script = [fastapi.Response(status_code=500)] * 50
    with pytest.raises(EndpointError, match=r"gave no answer: 500 Internal Server Error \(attempts: 1\)"):
        play(engine, policy)
    with pytest.raises(EndpointError, match=r"the vllm server at http://127.0.0.1:9 gave no answer: ConnectError"):
        ServerEngine(policy, "http://127.0.0.1:9", retries=0)


def test_another_server_is_said_to_be_one(server: ModelServer, policy: Policy) -> None:
    """An address without what the kind answers."""
    with pytest.raises(EndpointError, match=r"404 Not Found.*A server of kind vllm answers POST /v1/completions"):
        ServerEngine(policy, f"{server.url}/elsewhere")


def test_what_is_sent(server: ModelServer, policy: Policy) -> None:
    """Everything that the model's own defaults would decide otherwise, and the model's name where one was given."""
    prompt, end = policy.chat.opening("go"), policy.chat.end_of_turn
    params = SamplingParams(temperature=0.5, max_new_tokens=9)
    for kind in KINDS:
        named: dict[str, Any] = {"model": "served"} if kind == "vllm" else {}
        ServerEngine(policy, server.url, kind, **named).generate([prompt], params, [(1 << 40) + 7])
    drawn = {"temperature": 0.5, "top_p": 1.0, "top_k": 0}
    plain = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    vllm = {
        "prompt": prompt, "model": "served", "max_tokens": 9, "seed": 7, "logprobs": 0, "return_token_ids": True,
        "ignore_eos": True, "stop_token_ids": [end],
    }  # fmt: skip
    sglang = {"max_new_tokens": 9, "sampling_seed": 7, "stop_token_ids": [end], "top_k": -1}
    llamacpp = {
        "prompt": prompt, "n_predict": 9, "seed": 7, "return_tokens": True, "n_probs": 1, "post_sampling_probs": True,
        "samplers": ["temperature", "top_k", "top_p"],
    }  # fmt: skip
    last = dict(server.bodies)
    assert last["/v1/completions"] == drawn | plain | vllm
    sent = {"input_ids": prompt, "return_logprob": True, "sampling_params": drawn | plain | sglang}
    assert last["/generate"] == sent and last["/completion"] == drawn | llamacpp
    assert last["/collective_rpc"]["method"] == "reload_weights"
    assert last["/update_weights_from_disk"]["flush_cache"] is True
