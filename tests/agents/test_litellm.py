"""A model of any provider through litellm: against a fake module, and the real one's mock if it is installed."""

from __future__ import annotations

import asyncio
import importlib.machinery
import sys
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from agentgym_py import http_client
from agentgym_py.agents.litellm import LiteLLMAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, EndpointError
from agentgym_py.evaluation import summarise
from agentgym_py.evaluation.evaluate import ApiUsage
from agentgym_py.trajectory import Trajectory, store

SECRET = "sk-ant-of-the-tests-0123456789"
MODEL = "anthropic/claude-of-the-tests"


class Response:
    """An answer of litellm."""

    def __init__(self, content: str = "look", calls: Any = None, finish_reason: str = "stop") -> None:
        message = {"role": "assistant", "content": content, "tool_calls": calls}
        self.body = {
            "model": "claude-1", "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }  # fmt: skip

    def model_dump(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.body


class RefusalError(Exception):
    """An exception of litellm."""

    def __init__(self, status_code: int, text: str = "no") -> None:
        super().__init__(f"litellm.Error: {text}")
        self.status_code = status_code


class ContextWindowExceededError(RefusalError):
    """litellm's exception of this name."""


class ContentPolicyViolationError(RefusalError):
    """litellm's exception of this name."""


class LiteLLM(ModuleType):
    """Answers by its script; the last answer is repeated."""

    def __init__(self) -> None:
        super().__init__("litellm")
        self.__spec__ = importlib.machinery.ModuleSpec("litellm", None)
        self.script: list[Any] = [Response()]
        self.asked: list[dict[str, Any]] = []
        self.price: float | None = 0.002

    async def acompletion(self, **arguments: Any) -> Any:
        """Record the arguments and answer."""
        self.asked.append(arguments)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            await asyncio.sleep(answer)
        return answer

    def completion_cost(self, completion_response: Any) -> float:
        """Return the price, or raise as for an unknown model."""
        if self.price is None:
            raise ValueError("This model isn't mapped yet")
        return self.price


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> LiteLLM:
    """The module in litellm's place; a second try comes soon."""
    module = LiteLLM()
    monkeypatch.setitem(sys.modules, "litellm", module)
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.01)
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    return module


def play(tasks: int = 1, steps: int = 2, env: str = "maze", **settings: Any) -> list[Trajectory]:
    """Play a few steps."""
    agent = LiteLLMAgent(MODEL, **settings)
    return Collector(agent).collect_batch(jobs_for(EnvSpec(env, {"max_steps": steps}), "train", range(tasks)))


def test_a_reply_with_its_usage_and_cost_is_recorded(litellm: LiteLLM) -> None:
    """The conversation is sent without retries of litellm's own; cost is litellm's, latency is there."""
    (trajectory,) = play(temperature=0.5, extra={"top_p": 0.9})
    assert [step.reply for step in trajectory.steps] == ["look"] * 2
    first, second = litellm.asked
    assert [turn["role"] for turn in second["messages"]] == ["user", "assistant", "user"]
    assert {name: first[name] for name in first if name != "messages"} == {
        "model": MODEL, "temperature": 0.5, "max_tokens": 1024, "top_p": 0.9, "timeout": 120.0, "num_retries": 0,
        "max_retries": 0,
    }  # fmt: skip
    assert summarise([trajectory]).spent == ApiUsage(2, 200, 20, 0, 0.004, ("claude-1",))
    assert all(step.usage and step.usage.latency is not None for step in trajectory.steps)
    assert store.from_line(store.to_line(trajectory)) == trajectory
    assert trajectory.provenance.agent == MODEL and trajectory.provenance.sampling["temperature"] == 0.5


def test_the_users_prices_come_before_litellms(litellm: LiteLLM) -> None:
    """A model without a price has no cost."""
    (trajectory,) = play(steps=1, prompt_price=1.0, completion_price=10.0)
    litellm.price = None
    (other,) = play(steps=1)
    usages = [t.steps[0].usage for t in (trajectory, other)]
    assert [usage.cost for usage in usages if usage] == [0.0002, None]


def test_tool_calls_are_actions(litellm: LiteLLM) -> None:
    """As those of an OpenAI-compatible endpoint."""
    call = {"id": "x", "type": "function", "function": {"name": "search_people", "arguments": '{"name": "Hugo"}'}}
    litellm.script = [Response("So.", [call])]
    (trajectory,) = play(env="tools", steps=1, tools=True)
    step = trajectory.steps[0]
    assert (step.action, step.action_input, step.thought) == ("search_people", '{"name": "Hugo"}', "So.")
    assert litellm.asked[0]["tools"]


@pytest.mark.parametrize("fault", [RefusalError(429), RefusalError(529), RefusalError(500), None])
def test_what_fails_for_now_is_sent_again(litellm: LiteLLM, fault: Exception | None) -> None:
    """Overload, a server's error and an answer that is no completion."""
    broken = Response()
    broken.body["choices"] = []
    litellm.script = [fault or broken, Response()]
    (trajectory,) = play(steps=1)
    assert trajectory.error is None and len(litellm.asked) == 2


def test_a_request_without_an_answer_in_time_is_sent_again(litellm: LiteLLM) -> None:
    """Also more than once, as on a busy machine."""
    litellm.script = [30.0, Response()]
    (trajectory,) = play(steps=1, timeout=0.2, retries=20)
    assert trajectory.error is None and len(litellm.asked) >= 2


@pytest.mark.parametrize(
    ("fault", "expected_text"),
    [
        (RefusalError(401, f"bad key {SECRET}"), f"the model '{MODEL}' refuses: litellm.Error: bad key …"),
        (RefusalError(404, "no such model"), "refuses: litellm.Error: no such model"),
        (RefusalError(500, "Missing Gemini API key. Set GEMINI_API_KEY"), "refuses: litellm.Error: Missing Gemini"),
        (RefusalError(400, "temperature"), "refused a request: litellm.Error: temperature"),
        (ValueError("odd"), "refused a request: odd"),
    ],
)
def test_what_a_retry_does_not_repair_is_an_error_at_once(
    litellm: LiteLLM, fault: Exception, expected_text: str
) -> None:
    """In one line, which shows no key."""
    litellm.script = [fault]
    with pytest.raises(EndpointError) as error:
        play()
    assert expected_text in str(error.value) and SECRET not in str(error.value) and len(litellm.asked) == 1


def test_a_full_context_gives_the_episode_up(litellm: LiteLLM) -> None:
    """As with every model."""
    litellm.script = [Response(), ContextWindowExceededError(400)]
    (trajectory,) = play(steps=5)
    assert trajectory.given_up and len(trajectory.steps) == 1


@pytest.mark.parametrize(
    ("settings", "expected_text"),
    [
        ({"model": ""}, "model is missing"),
        ({"model": "huggingface/https://x.example"}, "model must be PROVIDER/MODEL"),
        ({"base_url": "x"}, "base_url must be an address"),
        ({"extra": {"api_base": "https://x.example"}}, "extra must not hold 'api_base'"),
        ({"extra": {"top_p": 1, "vertex_location": "x.example/"}}, "extra must not hold 'vertex_location'"),
        ({"extra": {"fallbacks": [{"api_base": "https://x.example"}]}}, "extra must not hold 'fallbacks'"),
        ({"timeout": 0}, "timeout must be above 0"),
    ],
)
def test_wrong_settings_are_refused(litellm: LiteLLM, settings: dict[str, Any], expected_text: str) -> None:
    """Before anything is sent; above all what would send a key elsewhere."""
    with pytest.raises(ConfigError, match=expected_text):
        LiteLLMAgent(**{"model": MODEL} | settings)


def test_without_litellm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line."""
    monkeypatch.setattr("agentgym_py.agents.litellm.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs litellm, of the extra `litellm`: .*pip install"):
        LiteLLMAgent(MODEL)


@pytest.mark.skipif(find_spec("litellm") is None, reason="without the extra `litellm`")
def test_the_real_litellm_answers_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own mock of an answer, with its own prices."""
    import litellm

    monkeypatch.setattr(litellm, "acompletion", partial(litellm.acompletion, mock_response="look"))
    agent = LiteLLMAgent("anthropic/claude-sonnet-4-5", timeout=300)
    job = jobs_for(EnvSpec("maze", {"max_steps": 1}), "train", [0])
    (trajectory,) = Collector(agent).collect_batch(job)
    (step,) = trajectory.steps
    assert step.reply == "look" and step.usage is not None and step.usage.model == "claude-sonnet-4-5"
    assert step.usage.prompt_tokens and step.usage.completion_tokens and step.usage.cost


def test_a_content_filter_is_counted(litellm: LiteLLM) -> None:
    """By the class of the error or by the reason of the end; the reply is empty, and the episode continues."""
    litellm.script = [ContentPolicyViolationError(400), Response("Action: lo", finish_reason="content_filter")]
    (trajectory,) = play(steps=2)
    assert [step.reply for step in trajectory.steps] == ["", ""] and trajectory.error is None
    assert summarise([trajectory]).refused == 2
