"""An endpoint that is really served, a client that does one thing at a time, and a judge with a gate."""

from __future__ import annotations

import asyncio
import json
import runpy
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym.providers.base import Sandbox, Spec
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.laws import SCRIPT


class Gate(FakeProvider):
    """A judge whose runs wait for ``open_gate``; ``waiting`` of them are known to."""

    def __init__(self, script: Any = SCRIPT, *, shut: bool = True, slots: int | None = None) -> None:
        super().__init__(script)
        self.gate, self._came = asyncio.Event(), asyncio.Event()
        self.waiting = 0
        if slots is not None:
            self.slots = slots
        if not shut:
            self.gate.set()

    async def open(self, spec: Spec) -> Sandbox:
        self.waiting += 1
        self._came.set()
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        return await super().open(spec)

    async def came(self, count: int) -> None:
        """Return as soon as so many runs wait."""
        while self.waiting < count:
            self._came.clear()
            await self._came.wait()

    def open_gate(self) -> None:
        self.gate.set()


class Exchange:
    """One request, made of ASGI messages in this process: ``await`` it for the status and the answer."""

    def __init__(
        self,
        app: Any,
        body: bytes | list[bytes] | object,
        *,
        path: str = "/get_reward",
        method: str = "POST",
        headers: dict[str, str] | None = None,
        server: tuple[str, int] = ("127.0.0.1", 80),
        complete: bool = True,
    ) -> None:
        parts = body if isinstance(body, list) else [body if isinstance(body, bytes) else _json(body)]
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for number, part in enumerate(parts):
            more = not complete or number + 1 < len(parts)
            self._messages.put_nowait({"type": "http.request", "body": part, "more_body": more})
        self._left = False
        self.sent: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in (headers or {}).items()],
            "client": ("127.0.0.1", 1),
            "server": server,
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    def leave(self) -> None:
        """The client closes the connection."""
        self._left = True
        self._messages.put_nowait({"type": "http.disconnect"})

    def send(self, part: bytes, last: bool = True) -> None:
        """The client sends more of its body."""
        self._messages.put_nowait({"type": "http.request", "body": part, "more_body": not last})

    async def over(self) -> tuple[int, Any]:
        """The status and the answer, which is a text if it isn't JSON."""
        await self.task
        text = b"".join(message.get("body", b"") for message in self.sent[1:]).decode()
        try:
            return self.sent[0]["status"], json.loads(text)
        except ValueError:
            return self.sent[0]["status"], text

    def __await__(self) -> Any:
        return self.over().__await__()

    async def _receive(self) -> dict[str, Any]:
        return await self._messages.get()

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


class Served:
    """An app behind uvicorn on loopback, in a thread with an event loop of its own.

    ``make`` is called in that loop, so that whatever belongs to one belongs to it.
    """

    def __init__(self, make: Callable[[], Any], port: int = 0, **config: Any) -> None:
        import uvicorn

        self._make, self._ready = make, threading.Event()
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/get_reward"
        self.app: Any = None
        self.loop: asyncio.AbstractEventLoop
        self.server: uvicorn.Server
        self._config = {"log_config": None, "access_log": False, "backlog": 4096, **config}
        self.left_tasks: list[str] = []
        self._thread = threading.Thread(target=self._run, name="served", daemon=True)
        self._thread.start()
        assert self._ready.wait(30), "the server didn't start"

    @property
    def endpoint(self) -> Any:
        return self.app.state.endpoint

    def call(self, function: Callable[[], Any]) -> Any:
        """What ``function`` returns in the server's loop; awaited if need be."""

        async def run() -> Any:
            found = function()
            return await found if hasattr(found, "__await__") else found

        future: Future[Any] = asyncio.run_coroutine_threadsafe(run(), self.loop)
        return future.result(60)

    def stop(self) -> None:
        """Stop it as a signal does, and wait until it has ended."""
        self.server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive(), "the server didn't stop"

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        import uvicorn

        self.loop = asyncio.get_running_loop()
        self.app = self._make()
        self.server = uvicorn.Server(uvicorn.Config(self.app, **self._config))
        serving = asyncio.create_task(self.server.serve(sockets=[self.socket]))
        while not self.server.started and not serving.done():
            await asyncio.sleep(0.01)
        self._ready.set()
        await serving
        others = asyncio.all_tasks() - {asyncio.current_task()}
        self.left_tasks = [repr(task) for task in others]
        self.socket.close()


def query(response: str, label: object = None, prompt: str = "Write it.\n") -> dict[str, Any]:
    """A request of one sample."""
    return {"query": [f"{prompt}{response}<|im_end|>"], "prompts": [prompt], "labels": [label]}


def _json(body: object) -> bytes:
    return json.dumps(body).encode()


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """What the tests of an endpoint are made of."""
    return SimpleNamespace(Gate=Gate, Exchange=Exchange, Served=Served, query=query)


@pytest.fixture(scope="session")
def client() -> SimpleNamespace:
    """OpenRLHF's own client; see ``client.py``."""
    pytest.importorskip("aiohttp")
    pytest.importorskip("openrlhf")
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("client.py"))))


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves apps, and stops them."""
    running: list[Served] = []

    def start(make: Callable[[], Any], **config: Any) -> Served:
        running.append(Served(make, **config))
        return running[-1]

    yield start
    for served in running:
        served.stop()
