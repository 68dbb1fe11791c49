"""A model server for tests: it speaks the protocols of vLLM, SGLang and llama.cpp, and generates with `HFEngine`.

It implements only what `ServerEngine` uses, one reply at a time, without a key: for trying things out with small models
when none of these servers is installed. For chat completions a test supplies the reply.
"""

from __future__ import annotations

import asyncio
import copy
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
from agentgym_py.policy.quiet import ignore_checkpointing_warnings


@dataclass
class ModelServer:
    """A server of one policy; a test sets its fields."""

    policy: Policy
    url: str = ""
    loads: bool = True
    """Whether it has endpoints that load weights."""
    loads_adapters: bool = False
    """Whether it has endpoints that load LoRA adapters."""
    stale: bool = False
    """Whether it reports that it loaded weights, but keeps the old ones."""
    plain: bool = False
    """Whether log-probabilities are taken before the temperature, as vLLM does by default."""
    script: list[Any] = field(default_factory=list)
    """Replacements of the next replies: a response, seconds to hang, or None for a normal reply."""
    breaks_after: int | None = None
    """Number of requests after which it only fails."""
    spoil: Callable[[dict[str, Any]], Any] = lambda answer: answer
    """Changes a vLLM response."""
    chat_reply: Callable[[dict[str, Any]], str] = lambda body: ""
    """Returns the reply to the body of a chat completion."""
    bodies: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Path and body of each request."""
    live: int = 0
    max_live: int = 0
    """Largest number of concurrent requests."""

    def __post_init__(self) -> None:
        self.engine, self._lock = HFEngine(self.policy), asyncio.Lock()
        self.adapted: dict[str, HFEngine] = {}
        """Engines of the loaded adapters, by name."""

    def app(self) -> Any:
        """Return the application."""
        app = fastapi.FastAPI()
        replies = {
            "/v1/completions": self._vllm, "/generate": self._sglang, "/completion": self._llamacpp,
            "/v1/chat/completions": self._chat,
        }  # fmt: skip
        weights = {
            "/collective_rpc": self._reload, "/reset_prefix_cache": self._reset,
            "/update_weights_from_disk": self._load,
        }  # fmt: skip
        adapters = {
            f"{start}/{what}_lora_adapter": answer
            for start in ("/v1", "")
            for what, answer in (("load", self._load_adapters), ("unload", self._unload_adapters))
        }
        for path, answer in (replies | weights | adapters).items():
            app.add_route(path, self._route(path, answer, path in replies), methods=["POST"])
        return app

    def _route(self, path: str, answer: Callable[[dict[str, Any]], Any], scripted: bool) -> Any:
        async def route(request: Any) -> Any:
            body = await request.json()
            self.bodies.append((path, body))
            scripted_reply = self.script.pop(0) if scripted and self.script else None
            loads = self.loads_adapters if path.endswith("_lora_adapter") else self.loads
            if not scripted and not loads:
                return fastapi.responses.JSONResponse({"detail": "Not Found"}, 404)
            if self.breaks_after is not None and len(self.bodies) > self.breaks_after:
                return fastapi.Response(status_code=500)
            if isinstance(scripted_reply, float):
                await asyncio.sleep(scripted_reply)
                return fastapi.Response(status_code=500)
            if scripted_reply is not None:
                return scripted_reply
            self.live += 1
            self.max_live = max(self.max_live, self.live)
            try:
                async with self._lock:
                    reply = await asyncio.to_thread(answer, body)
            finally:
                self.live -= 1
            return reply if isinstance(reply, fastapi.Response) else fastapi.responses.JSONResponse(reply)

        return route

    # ---- replies ----------------------------------------------------------------------------------------------------

    def _reply(
        self, prompt: list[int], params: SamplingParams, seed: int, adapters: str = ""
    ) -> tuple[Generation, list[float]]:
        """Generate a reply; return it with the log-probabilities that this server reports."""
        (reply,) = self.adapted.get(adapters, self.engine).generate([prompt], params, [seed])
        if not self.plain:
            return reply, list(reply.logprobs)
        with torch.no_grad():
            logits = self.policy.model(torch.tensor([[*prompt, *reply.ids]])).logits[0, len(prompt) - 1 : -1]
        logprobs = logits.log_softmax(-1)
        return reply, [float(row[token]) for row, token in zip(logprobs, reply.ids, strict=True)]

    def _vllm(self, body: dict[str, Any]) -> Any:
        if max(body["prompt"]) >= len(self.policy.tokenizer):
            return fastapi.responses.JSONResponse({"error": {"message": "Token id is out of vocabulary"}}, 400)
        if len(body["prompt"]) + body["max_tokens"] > self.policy.max_length:
            error = {"error": {"message": "This model's maximum context length is shorter"}}
            return fastapi.responses.JSONResponse(error, 400)
        params = SamplingParams(body["temperature"], body["top_p"], body["top_k"], body["max_tokens"])
        reply, logprobs = self._reply(body["prompt"], params, body["seed"], body.get("model", ""))
        choice = {
            "index": 0, "text": "", "finish_reason": reply.finish_reason,
            "token_ids": list(reply.ids), "prompt_token_ids": body["prompt"],
            "logprobs": {"token_logprobs": logprobs, "tokens": ["?"] * len(logprobs)},
        }  # fmt: skip
        return self.spoil({"object": "text_completion", "choices": [choice]})

    def _sglang(self, body: dict[str, Any]) -> Any:
        sampling = body["sampling_params"]
        top_k = max(sampling["top_k"], 0)
        params = SamplingParams(sampling["temperature"], sampling["top_p"], top_k, sampling["max_new_tokens"])
        seed, adapters = sampling["sampling_seed"], body.get("lora_path", "")
        reply, logprobs = self._reply(body["input_ids"], params, seed, adapters)
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
        message = {"role": "assistant", "content": self.chat_reply(body)}
        return {"model": body["model"], "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    # ---- weights ----------------------------------------------------------------------------------------------------

    def _reload(self, body: dict[str, Any]) -> Any:
        self._load_folder(body["kwargs"]["weights_path"])
        return {"results": [None]}

    def _load(self, body: dict[str, Any]) -> Any:
        self._load_folder(body["model_path"])
        return {"success": True}

    def _reset(self, body: dict[str, Any]) -> Any:
        """Fail as a server does while a reply uses the cache; here two times of three."""
        del body
        tried = [path for path, _ in self.bodies].count("/reset_prefix_cache")
        return {"success": tried % 3 == 0}

    def _load_folder(self, folder: str) -> None:
        if not self.stale:
            self.set_policy(Policy.load(folder, device="cpu"))

    def _load_adapters(self, body: dict[str, Any]) -> Any:
        """Load adapters beside the weights; vLLM answers in plain text."""
        from peft import PeftModel

        if body["lora_name"] in self.adapted:
            return fastapi.responses.JSONResponse({"error": {"message": "it has already been loaded"}}, 400)
        policy = copy.copy(self.policy)
        with ignore_checkpointing_warnings():
            policy.model = PeftModel.from_pretrained(copy.deepcopy(self.policy.model), body["lora_path"]).eval()
        self.adapted[body["lora_name"]] = HFEngine(policy)
        return fastapi.Response(f"Success: LoRA adapter '{body['lora_name']}' added successfully.")

    def _unload_adapters(self, body: dict[str, Any]) -> Any:
        del self.adapted[body["lora_name"]]
        return {"success": True}

    def set_policy(self, policy: Policy) -> None:
        """Generate with other weights."""
        self.policy, self.engine, self.adapted = policy, HFEngine(policy), {}


@contextmanager
def serving(server: ModelServer) -> Iterator[ModelServer]:
    """Run the server in a thread, on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:  # listens before the thread serves
        runner = uvicorn.Server(uvicorn.Config(server.app(), log_level="critical"))
        thread = threading.Thread(target=runner.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        try:
            yield server
        finally:
            runner.should_exit = runner.force_exit = True
            thread.join(5)
