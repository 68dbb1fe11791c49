"""A stand-in for an API: an OpenAI-compatible endpoint with two models that play the world of `my_world.py`.

Run `python examples/guess_server.py` and evaluate its models `large` and `small`; docs/tutorials/api-models.md does so.
Both are rules. `large` guesses the middle of the range and takes 50 ms; `small` guesses lower and takes 10 ms.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

MODELS = {"large": (0.5, 0.05), "small": (0.15, 0.01)}
"""Where a model guesses, as a fraction of the range, and how many seconds a reply takes."""


def reply_to(model: str, messages: Sequence[dict[str, str]]) -> str:
    """Return the next guess, from the bounds that the conversation shows."""
    low, high, guess = 0, 0, 0
    for message in messages:
        text = message["content"]
        if message["role"] == "assistant":
            guess = int(text.removeprefix("guess[").removesuffix("]"))
        elif limit := re.search(r"below (\d+)", text):
            high = int(limit[1])
        elif text == "Higher.":
            low = guess + 1
        elif text == "Lower.":
            high = guess
    fraction, _ = MODELS[model]
    return f"guess[{low + int((high - low) * fraction)}]"


class Handler(BaseHTTPRequestHandler):
    """Answers `POST /v1/chat/completions`; words stand in for tokens."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # header and body leave together; apart, the second waits some 40 ms for an acknowledgement

    def do_POST(self) -> None:
        """Reply to a conversation."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if (model := request["model"]) not in MODELS:
            return self._send(404, {"error": {"message": f"no model {model!r}; there are {', '.join(MODELS)}"}})
        text = reply_to(model, request["messages"])
        time.sleep(MODELS[model][1])
        words = sum(len(message["content"].split()) for message in request["messages"])
        message = {"role": "assistant", "content": text}
        return self._send(200, {
            "model": f"{model}-1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": words, "completion_tokens": len(text.split())},
        })  # fmt: skip

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serving(port: int = 0) -> Iterator[str]:
    """Serve on loopback in a thread, on a free port by default; yields the address."""
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 8000), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("Stopped.")
