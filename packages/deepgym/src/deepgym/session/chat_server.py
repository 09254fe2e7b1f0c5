"""An OpenAI-compatible server: one request, its retries, and what is made of its failures.

Whatever the server does wrong is infrastructure: ``NetworkError``, or ``ProviderError`` with the HTTP status.
A refusal of the request is ``ChatRequestError``, which isn't: the request holds what the policy wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import anyio

from deepgym.bounded import clean
from deepgym.exceptions import DeepGymError, MissingPackageError, NetworkError, ProviderError
from deepgym.plugins import install_line

if TYPE_CHECKING:
    import ssl

    import httpx
    import tenacity

__all__ = ["ChatRequestError", "ChatServer", "ToolsRefusedError"]

MAX_BODY = 32 << 20
_MAX_ERROR_BODY = 64 << 10
_MAX_WAIT = 60.0
#: Waits between attempts.
pause = anyio.sleep
_CONNECT = 10.0
#: Stands for an answer that no working server gives.
_BAD_GATEWAY = 502
#: Refusals that the conversation itself may have brought about.
_OF_THE_REQUEST = frozenset({400, 413, 422})
#: What servers answer to tools that they can't take.
_OF_TOOLS = frozenset({400, 404, 422, 500, 501})


class ChatRequestError(DeepGymError):
    """The server refused a request: a context that is too long, an unknown model or path, ..."""

    def __init__(self, message: str = "", status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code


class ToolsRefusedError(ChatRequestError):
    """The server, or its model, doesn't take tools."""


class _Again(Exception):
    """Worth another try; ``error`` is what to raise in the end."""

    def __init__(self, error: DeepGymError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


class ChatServer:
    """Where chat completions come from. Holds no connection: works from any event loop, pickles and forks."""

    def __init__(
        self, base_url: str, *, api_key: str | None, timeout: float, retries: int, backoff: float
    ) -> None:
        url = _url(base_url)
        self.url = str(url)
        self.name = f"{url.host}:{url.port}" if url.port else url.host
        self._is_local = url.host in ("localhost", "127.0.0.1", "::1")
        self._key = api_key
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._tls: ssl.SSLContext | None = None
        # A header must be writable before an episode begins.
        self._headers()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tls": None}

    async def complete(self, body: Mapping[str, Any], *, first: bool = True) -> dict[str, Any]:
        """The answer to one request: an object whose ``choices`` begin with one that has a ``message``.

        Args:
            body: What to ask.
            first: Whether nothing of the policy's is in it. Then a server that has no such model is a
                mistake of the caller; later it is a server that broke down.

        Raises:
            NetworkError: it couldn't be reached, again and again.
            ProviderError: it failed again and again, took too long, or refused the key.
            ToolsRefusedError: it doesn't take the ``tools`` of the ``first`` request.
            ChatRequestError: it refused the request.
        """
        import tenacity

        def wait(state: tenacity.RetryCallState) -> float:
            failure = state.outcome.exception() if state.outcome else None
            after = failure.after if isinstance(failure, _Again) else None
            backoff = tenacity.wait_random_exponential(multiplier=self._backoff, max=_MAX_WAIT)(state)
            return backoff if after is None else min(max(after, 0.0), _MAX_WAIT)

        data = json.dumps(body).encode()
        again = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(1 + self._retries),
            wait=wait,
            retry=tenacity.retry_if_exception_type(_Again),
            sleep=pause,
            reraise=True,
        )
        try:
            return await again(self._once, data, first, "tools" in body)
        except _Again as failure:
            raise failure.error from failure.__cause__

    async def _once(self, data: bytes, first: bool, tools: bool) -> dict[str, Any]:
        status, headers, answer = await self._post(data)
        if status == 200:
            completion = _completion(answer)
            if isinstance(completion, dict):
                return completion
            status, reason = completion
            message = f"{self.name} answered 200 with {reason}"
        else:
            reason = _reason(answer)
            message = f"{self.name} answered {status}: {reason}"
        if first and tools and status in _OF_TOOLS and "tool" in reason.lower():
            raise ToolsRefusedError(self._said(message), status)
        self._refuse(status, self._said(message), first, _seconds(headers.get("retry-after")))

    def _refuse(self, status: int, message: str, first: bool, after: float | None) -> NoReturn:
        if status == 408:
            raise _Again(ProviderError(message, self.name, status, timed_out=True), after)
        if status == 429 or status >= 500:
            raise _Again(ProviderError(message, self.name, status), after)
        if status in (401, 403):
            raise ProviderError(message, self.name, status)
        if first or status in _OF_THE_REQUEST:
            raise ChatRequestError(message, status)
        raise ProviderError(f"{message} (it had answered before)", self.name, _BAD_GATEWAY)

    async def _post(self, data: bytes) -> tuple[int, Mapping[str, str], bytes]:
        import httpx

        try:
            with anyio.fail_after(self._timeout):
                return await self._exchange(data)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout) as error:
            message = f"{self.name} gave no answer in {self._timeout:g} s"
            raise ProviderError(message, self.name, timed_out=True) from error
        except (httpx.TransportError, OSError) as error:
            message = self._said(f"can't reach {self.name}: {type(error).__name__}: {error}")
            raise _Again(NetworkError(message)) from error

    async def _exchange(self, data: bytes) -> tuple[int, Mapping[str, str], bytes]:
        import httpx

        timeout = httpx.Timeout(self._timeout, connect=min(_CONNECT, self._timeout))
        # A proxy that the environment names is never the way to this machine.
        client = httpx.AsyncClient(verify=self._certificates(), timeout=timeout, trust_env=not self._is_local)
        async with client, client.stream("POST", self.url, content=data, headers=self._headers()) as response:
            limit = MAX_BODY if response.status_code == 200 else _MAX_ERROR_BODY
            body = bytearray()
            # Cancelled and not left: the library's generators end cleanly only so.
            with anyio.CancelScope() as reading:
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > limit:
                        reading.cancel()
            return response.status_code, response.headers, bytes(body)

    def _certificates(self) -> ssl.SSLContext | bool:
        if self.url.startswith("http:"):
            return False
        if self._tls is None:
            import httpx

            self._tls = httpx.create_ssl_context()
        return self._tls

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if self._key is not None:
            if not (self._key.isascii() and self._key.isprintable()):
                raise ValueError(
                    "api_key holds what can't stand in a header; is there a line break at its end?"
                )
            headers["authorization"] = f"Bearer {self._key}"
        return headers

    def _said(self, message: str) -> str:
        return clean(message.replace(self._key, "***") if self._key else message, 1000)


def _url(base_url: str) -> httpx.URL:
    try:
        import httpx
    except ImportError:
        raise MissingPackageError(f"httpx is not installed; run: {install_line('chat')}") from None
    try:
        url = httpx.URL(base_url)
        path = url.path.rstrip("/")
        url = url if path.endswith("/chat/completions") else url.copy_with(path=f"{path}/chat/completions")
    except (httpx.InvalidURL, TypeError) as error:
        raise ValueError(f"base_url={base_url!r} isn't a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"base_url={base_url!r} must be like http://localhost:8000/v1")
    return url


def _completion(answer: bytes) -> dict[str, Any] | tuple[int, str]:
    """The completion in the body of a 200; or the status that the body deserves, and why."""
    if len(answer) > MAX_BODY:
        return _BAD_GATEWAY, f"a body of more than {MAX_BODY} bytes"
    try:
        # Whatever bytes a model made a server send, they don't make its answer a broken one.
        found = json.loads(answer.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        return _BAD_GATEWAY, f"a body that isn't JSON ({error})"
    if not isinstance(found, dict):
        return _BAD_GATEWAY, f"a body that is a {type(found).__name__}, not a completion"
    choices = found.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        if isinstance(choices[0].get("message"), dict):
            return found
        return _BAD_GATEWAY, "a choice without a message"
    said = found.get("error")
    code = said.get("code") if isinstance(said, dict) else None
    if isinstance(code, int) and 400 <= code <= 599:
        return code, f"the error {code}: {_reason(answer)}"
    return _BAD_GATEWAY, f"a body without choices: {_reason(answer)}"


def _reason(answer: bytes) -> str:
    """The server's own words."""
    text = answer.decode("utf-8", "replace")
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(text[:2000].split())[:500]
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    return found[:500] if isinstance(found, str) else json.dumps(found)[:500]


def _seconds(value: str | None) -> float | None:
    """Of a ``Retry-After`` header: a number or a date; ``None`` if it can't be read."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    from datetime import datetime, timezone
    from email.utils import parsedate_to_datetime

    try:
        return (parsedate_to_datetime(value) - datetime.now(timezone.utc)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
