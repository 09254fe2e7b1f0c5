"""A loopback server that speaks OpenAI's `completions` and `chat/completions`, and answers from a function.

Like a real one it ends an answer before the first stop sequence, and takes several prompts at once.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Answer", "Asked", "Loopback", "loopback"]


@dataclass(frozen=True)
class Asked:
    """One prompt of one request. ``turn``: how often the same prompt was asked before."""

    path: str
    body: dict[str, Any]
    prompt: str
    turn: int

    @property
    def chat(self) -> bool:
        return self.path.endswith("/chat/completions")

    @property
    def stops(self) -> list[str]:
        """The stop sequences, ``null`` and empty ones left out."""
        stop = self.body.get("stop") or []
        return [text for text in ([stop] if isinstance(stop, str) else stop) if text]


#: What a model says to a prompt; ``None`` is the null content of a model that said nothing.
Answer = Callable[[Asked], "str | None"]


@dataclass
class Loopback:
    """The server's address and all it was asked, in the order in which it came."""

    address: str
    answer: Answer
    asked: list[Asked] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, chat: bool) -> str:
        return f"{self.address}/v1/{'chat/' if chat else ''}completions"

    def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The response to one request, as a server would send it."""
        choices = [self._choice(index, self._note(path, body, prompt)) for index, prompt in _prompts(body)]
        return {"id": "loopback", "object": "text_completion", "choices": choices, "usage": {}}

    def _note(self, path: str, body: dict[str, Any], prompt: str) -> Asked:
        with self.lock:
            asked = Asked(path, body, prompt, self.turns[prompt])
            self.turns[prompt] += 1
            self.asked.append(asked)
        return asked

    def _choice(self, index: int, asked: Asked) -> dict[str, Any]:
        text = self.answer(asked)
        said = None if text is None else _cut(text, asked.stops)
        choice: dict[str, Any] = {"index": index, "finish_reason": "stop", "logprobs": None}
        if asked.chat:
            return {**choice, "message": {"role": "assistant", "content": said}}
        return {**choice, "text": said}


def _prompts(body: dict[str, Any]) -> list[tuple[int, str]]:
    """Each prompt of a completion request, or what the user said last."""
    if "messages" in body:
        said = [message["content"] for message in body["messages"] if message["role"] == "user"]
        return [(0, said[-1])]
    prompt = body["prompt"]
    return list(enumerate([prompt] if isinstance(prompt, str) else prompt))


def _cut(text: str, stops: list[str]) -> str:
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text


@contextmanager
def loopback(answer: Answer) -> Iterator[Loopback]:
    """A server on a free port of the loopback interface, gone when the block is left."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    made = Loopback(f"http://127.0.0.1:{server.server_port}", answer)
    server.loopback = made  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        sent = json.dumps(self.server.loopback.reply(self.path, body)).encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def do_GET(self) -> None:
        """Nothing is here to be fetched: lm-eval asks whether a server has a tokenizer to lend."""
        self.send_error(404)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing on stderr."""
