"""A model server for tests: over loopback it speaks as vLLM, SGLang and llama.cpp do, and generates with `HFEngine`.

It has what `ServerEngine` needs of them and no more, one reply at a time, without a key: for small models, to try
things out where there is none of them. In chat completions it says what a test has it say.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import fastapi
import torch
import uvicorn

from agentgym_py.engine import Generation, HFEngine, SamplingParams
from agentgym_py.policy import Policy


@dataclass
class ModelServer:
    """Holds a policy's weights; what a test may turn is a field."""

    policy: Policy
    url: str = ""
    loads: bool = True
    """Whether it has endpoints that load weights."""
    stale: bool = False
    """Whether it claims to have loaded them, and keeps the old ones."""
    plain: bool = False
    """Whether log-probabilities are those before the temperature, as vLLM's are unless it is told otherwise."""
    script: list[Any] = field(default_factory=list)
    """What comes in place of the next replies: a response, seconds to hang, or None."""
    breaks_after: int | None = None
    """Number of requests that are answered."""
    spoil: Callable[[dict[str, Any]], Any] = lambda answer: answer
    """Changes an answer of vLLM's kind."""
    says: Callable[[dict[str, Any]], str] = lambda body: ""
    """What it says to the body of a chat completion."""
    bodies: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Path and body of each request."""
    live: int = 0
    most: int = 0
    """Requests at once."""

    def __post_init__(self) -> None:
        self.engine, self._one = HFEngine(self.policy), asyncio.Lock()

    def app(self) -> Any:
        """The application."""
        made = fastapi.FastAPI()
        replies = {
            "/v1/completions": self._vllm, "/generate": self._sglang, "/completion": self._llamacpp,
            "/v1/chat/completions": self._chat,
        }  # fmt: skip
        others = {
            "/collective_rpc": self._reload, "/reset_prefix_cache": self._reset,
            "/update_weights_from_disk": self._load,
        }  # fmt: skip
        for path, answer in (replies | others).items():
            made.add_route(path, self._route(path, answer, path in replies), methods=["POST"])
        return made

    def _route(self, path: str, answer: Callable[[dict[str, Any]], Any], scripted: bool) -> Any:
        async def route(request: Any) -> Any:
            body = await request.json()
            self.bodies.append((path, body))
            said = self.script.pop(0) if scripted and self.script else None
            if not scripted and not self.loads:
                return fastapi.responses.JSONResponse({"detail": "Not Found"}, 404)
            if self.breaks_after is not None and len(self.bodies) > self.breaks_after:
                return fastapi.Response(status_code=500)
            if isinstance(said, float):
                await asyncio.sleep(said)
                return fastapi.Response(status_code=500)
            if said is not None:
                return said
            self.live += 1
            self.most = max(self.most, self.live)
            try:
                async with self._one:
                    answered = await asyncio.to_thread(answer, body)
            finally:
                self.live -= 1
            return answered if isinstance(answered, fastapi.Response) else fastapi.responses.JSONResponse(answered)

        return route

    # ---- replies ----------------------------------------------------------------------------------------------------

    def _reply(self, prompt: list[int], params: SamplingParams, seed: int) -> tuple[Generation, list[float]]:
        """A reply, and its log-probabilities as this server gives them."""
        (reply,) = self.engine.generate([prompt], params, [seed])
        if not self.plain:
            return reply, list(reply.logprobs)
        with torch.no_grad():
            logits = self.policy.model(torch.tensor([[*prompt, *reply.ids]])).logits[0, len(prompt) - 1 : -1]
        said = logits.log_softmax(-1)
        return reply, [float(row[token]) for row, token in zip(said, reply.ids, strict=True)]

    def _vllm(self, body: dict[str, Any]) -> Any:
        if max(body["prompt"]) >= len(self.policy.tokenizer):
            return fastapi.responses.JSONResponse({"error": {"message": "Token id is out of vocabulary"}}, 400)
        if len(body["prompt"]) + body["max_tokens"] > self.policy.max_length:
            said = {"error": {"message": "This model's maximum context length is shorter"}}
            return fastapi.responses.JSONResponse(said, 400)
        params = SamplingParams(body["temperature"], body["top_p"], body["top_k"], body["max_tokens"])
        reply, logprobs = self._reply(body["prompt"], params, body["seed"])
        choice = {
            "index": 0, "text": "", "finish_reason": reply.finish_reason,
            "token_ids": list(reply.ids), "prompt_token_ids": body["prompt"],
            "logprobs": {"token_logprobs": logprobs, "tokens": ["?"] * len(logprobs)},
        }  # fmt: skip
        return self.spoil({"object": "text_completion", "choices": [choice]})

    def _sglang(self, body: dict[str, Any]) -> Any:
        given = body["sampling_params"]
        params = SamplingParams(given["temperature"], given["top_p"], max(given["top_k"], 0), given["max_new_tokens"])
        reply, logprobs = self._reply(body["input_ids"], params, given["sampling_seed"])
        pairs = [[logprob, token, None] for logprob, token in zip(logprobs, reply.ids, strict=True)]
        meta = {
            "finish_reason": {"type": reply.finish_reason}, "prompt_tokens": len(body["input_ids"]),
            "output_token_logprobs": pairs,
        }  # fmt: skip
        return {"text": "", "output_ids": list(reply.ids), "meta_info": meta}

    def _llamacpp(self, body: dict[str, Any]) -> Any:
        params = SamplingParams(body["temperature"], body["top_p"], body["top_k"], body["n_predict"])
        reply, logprobs = self._reply(body["prompt"], params, body["seed"])
        after = body["post_sampling_probs"]
        probs = [
            {"id": token, "prob": math.exp(logprob)} if after else {"id": token, "logprob": logprob}
            for token, logprob in zip(reply.ids, logprobs, strict=True)
        ]
        return {
            "content": "", "tokens": list(reply.ids), "completion_probabilities": probs,
            "stop_type": "eos" if reply.finish_reason == "stop" else "limit", "tokens_evaluated": len(body["prompt"]),
        }  # fmt: skip

    def _chat(self, body: dict[str, Any]) -> Any:
        message = {"role": "assistant", "content": self.says(body)}
        return {"model": body["model"], "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    # ---- weights ----------------------------------------------------------------------------------------------------

    def _reload(self, body: dict[str, Any]) -> Any:
        self._take(body["kwargs"]["weights_path"])
        return {"results": [None]}

    def _load(self, body: dict[str, Any]) -> Any:
        self._take(body["model_path"])
        return {"success": True}

    def _reset(self, body: dict[str, Any]) -> Any:
        """Fails while a reply uses the cache; here two times of three."""
        del body
        tried = [path for path, _ in self.bodies].count("/reset_prefix_cache")
        return {"success": tried % 3 == 0}

    def _take(self, folder: str) -> None:
        if not self.stale:
            self.hold(Policy.load(folder, device="cpu"))

    def hold(self, policy: Policy) -> None:
        """Play other weights."""
        self.policy, self.engine = policy, HFEngine(policy)


@contextmanager
def serving(server: ModelServer) -> Iterator[ModelServer]:
    """The server in a thread, on a free port."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        running = uvicorn.Server(uvicorn.Config(server.app(), log_level="critical"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [own]}, daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{own.getsockname()[1]}/v1"
        try:
            yield server
        finally:
            running.should_exit = running.force_exit = True
            thread.join(5)
