"""Requests to an endpoint as OpenRLHF's trainer makes them, with nothing but the standard library.

Each has a connection of its own, because the trainer's have.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import unquote, urlsplit

from .wire import ATTEMPT_SECONDS

__all__ = ["Answer", "Asked", "body", "request"]


@dataclass(frozen=True)
class Answer:
    """What came back. ``status`` is 0 if nothing did; ``text`` then says why."""

    status: int
    kind: str
    text: str
    seconds: float

    @property
    def data(self) -> Any:
        """The JSON in it, or ``None``."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


class Asked:
    """An endpoint at ``url``.

    Args:
        url: As the trainer is given it; a name and a token before the host become Basic credentials.
        token: Instead of one in the address.

    Raises:
        ValueError: that is no address.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r:.200} is no address such as http://127.0.0.1:5000/get_reward")
        self._https = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        user, password = parts.username or "", parts.password
        if token is not None:
            user, password = "deepgym", token
        self.authorization = None
        if password is not None:
            pair = f"{unquote(user)}:{unquote(password) if token is None else password}"
            self.authorization = "Basic " + base64.b64encode(pair.encode()).decode()

    def post(self, content: bytes, *, known: bool = True) -> Answer:
        """Send a body; ``known=False``: without the token."""
        return self._sent("POST", self._path, content, known)

    def get(self, path: str) -> Answer:
        """Ask for another path of the same server."""
        return self._sent("GET", path, None, True)

    def at_once(self, contents: Sequence[bytes]) -> list[Answer]:
        """Send all of them side by side; answer *i* is for body *i*."""
        with ThreadPoolExecutor(len(contents)) as pool:
            return list(pool.map(self.post, contents))

    def leave(self, content: bytes, seconds: float) -> bool:
        """Send a body, and close the connection if there is no answer in ``seconds``; whether there was none.

        Raises:
            OSError: the endpoint can't be reached.
        """
        connection = self._connection(ATTEMPT_SECONDS)
        try:
            connection.request("POST", self._path, content, self._headers(True))
            connection.sock.settimeout(seconds)
            try:
                return not connection.sock.recv(1)
            except TimeoutError:
                return True
        finally:
            connection.close()

    def _sent(self, method: str, path: str, content: bytes | None, known: bool) -> Answer:
        began = time.monotonic()
        connection = self._connection(ATTEMPT_SECONDS)
        try:
            connection.request(method, path, content, self._headers(known))
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
            kind = response.headers.get_content_type()
            return Answer(response.status, kind, text, time.monotonic() - began)
        except (OSError, HTTPException) as error:
            return Answer(0, "", f"{type(error).__name__}: {error}", time.monotonic() - began)
        finally:
            connection.close()

    def _connection(self, seconds: float) -> HTTPConnection:
        kind = HTTPSConnection if self._https else HTTPConnection
        return kind(self._host, self._port, timeout=seconds)

    def _headers(self, known: bool) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if known and self.authorization is not None:
            headers["Authorization"] = self.authorization
        return headers


def body(*samples: tuple[str, str, object]) -> bytes:
    """A request for samples, each a prompt, a response and a label."""
    queries = [prompt + response for prompt, response, _ in samples]
    return request(queries, [prompt for prompt, _, _ in samples], [label for _, _, label in samples])


def request(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object]) -> bytes:
    """A request with these three lists."""
    return json.dumps({"query": queries, "prompts": prompts, "labels": labels}).encode()
