"""A local server of chat completions, whose model is the scripted agent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scripted import Call, Script

Reply = Callable[[list[dict[str, Any]]], str | Call | None]
"""Replies to messages by a text or a tool call; None is a failure of the server."""


@contextmanager
def chat_server(reply: Reply) -> Iterator[str]:
    """Serve chat completions on loopback; the address is the value."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            text = reply(body["messages"])
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if isinstance(text, tuple):
                function = {"name": text[0], "arguments": json.dumps(text[1])}
                call = {"index": 0, "id": f"call_{len(body['messages'])}", "type": "function", "function": function}
                message = {"role": "assistant", "content": None, "tool_calls": [call]}
            streams = bool(body.get("stream"))
            choice: dict[str, Any] = {"index": 0, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
            kind = "delta" if streams else "message"
            answer: dict[str, Any] = {
                "id": "c", "object": "chat.completion" + ".chunk" * streams, "created": 1, "model": "scripted",
                "choices": [choice | {kind: message}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }  # fmt: skip
            if body.get("return_token_ids") and isinstance(text, str):  # as vLLM does; a token is a byte
                tokens = list(text.encode())
                logprobs = [{"token": "", "logprob": -float(token), "top_logprobs": []} for token in tokens]
                answer["choices"][0] |= {"token_ids": tokens, "logprobs": {"content": logprobs}}
                answer["prompt_token_ids"] = list("".join(turn["content"] for turn in body["messages"]).encode())
            data = json.dumps(answer if text is not None else {"error": {"message": "no such model"}})
            if streams and text is not None:
                data = f"data: {data}\n\ndata: [DONE]\n\n"
            self.send_response(200 if text is not None else 404)
            self.send_header("content-type", "text/event-stream" if streams else "application/json")
            self.send_header("content-length", str(len(data.encode())))
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def reply_of(scripts: Sequence[Script]) -> Reply:
    """Follow the scripts."""
    by_opening = {script.episode.observations[0]: script.actions for script in scripts}

    def reply(messages: list[dict[str, Any]]) -> str:
        turn: int = sum(message["role"] == "assistant" for message in messages)
        opening = next(message["content"] for message in messages if message["role"] == "user")
        return by_opening[opening][turn]

    return reply
