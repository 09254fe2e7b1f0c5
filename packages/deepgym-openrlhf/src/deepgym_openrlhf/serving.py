"""``deepgym openrlhf serve``: the endpoint as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import uvicorn

from deepgym.cli.outcome import UsageError
from deepgym.exceptions import NoVerdictError

from .router import PATH

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym
    from deepgym.environments import Environment

__all__ = ["USER", "Server", "address", "allow_open_files", "bound", "environments_of", "serve", "tried"]

#: The name beside the token in an address: anything will do, the token alone counts.
USER = "deepgym"
#: Connections that wait to be accepted. The kernel takes less if its own limit is lower.
_BACKLOG = 8192
#: Seconds that an answer may take to be sent once the endpoint stops; a client that reads none mustn't hold
#: it for ever.
_SENDING = 20.0


class Server(uvicorn.Server):
    """Serves an app with an endpoint until a signal says to stop, and then answers what it holds.

    After ``grace`` seconds, or at the second signal, what isn't judged is answered as what has no verdict.
    The third one ends connections without an answer; ``force_exit`` is true then. ``started`` is called once
    requests are accepted.
    """

    def __init__(self, app: Any, *, grace: float = 0.0, started: Callable[[], None] | None = None) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=int(grace + _SENDING),
        )
        super().__init__(config)
        self._endpoint = app.state.endpoint
        self._grace = grace
        self._tell = started
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started and self._tell is not None:
            self._tell()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop. The signal isn't raised again afterwards: being told to stop is no failure."""
        self._signals += 1
        self.should_exit = True
        self.force_exit = self._signals > 2
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop, self._signals)

    def _stop(self, signals: int) -> None:
        assert self._loop is not None
        if signals == 1 and self._grace > 0:
            self._loop.call_later(self._grace, self._endpoint.grading.stop)
        else:
            self._endpoint.grading.stop()


async def serve(
    app: Any, dg: AsyncDeepGym, listener: socket.socket, *, grace: float, started: Callable[[], None]
) -> bool:
    """Serve ``app`` on a bound socket until a signal; whether it ended in good order."""
    server = Server(app, grace=grace, started=started)
    try:
        await server.serve(sockets=[listener])
    finally:
        await app.state.endpoint.close()
        await dg.close()
    return server.started and not server.force_exit


async def tried(dg: AsyncDeepGym, envs: Sequence[Environment]) -> str:
    """What the judge says about a reference and an empty answer, before anybody depends on it.

    Raises:
        NoVerdictError: it has no verdict on one of them.
        UsageError: its verdict is wrong, so that the environment would teach nothing.
    """
    env = next((env for env in envs if env.reference is not None), envs[0])
    answers = ["", *([] if env.reference is None else [env.reference])]
    batch = await dg.run_batch(env, answers)
    for result in batch.results:
        if not result.has_verdict:
            raise NoVerdictError(
                f"{env.name}: the judge doesn't work here: {result.error_type}: {result.error}; see: deepgym "
                "doctor",
                result=result,
            )
    if len(answers) == 1:
        return f"{env.name}: an empty answer {batch.results[0].score:g}"
    empty, reference = batch.results
    if reference.score <= empty.score:
        raise UsageError(
            f"{env.name}: its reference scores {reference.score:g} and an empty answer {empty.score:g}: "
            f"{reference.error or 'no reward could tell them apart'}"
        )
    return f"{env.name}: reference {reference.score:g}, empty answer {empty.score:g} ({reference.isolation})"


def environments_of(names: Sequence[str]) -> tuple[list[Environment], list[str]]:
    """The environments that ``names`` stand for, and a remark about each suite with rows that are none.

    Args:
        names: Environments by name or folder, suites by name, JSONL files by path.

    Raises:
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: there is no such environment.
    """
    from deepgym.environments import load_environment, load_suite
    from deepgym.environments.suites import list_suites

    found: list[Environment] = []
    remarks: list[str] = []
    for name in names:
        if name not in list_suites() and not name.endswith((".jsonl", ".jsonl.gz")):
            found.append(load_environment(name))
            continue
        suite = load_suite(name)
        found += suite
        if suite.skipped:
            remarks.append(f"{len(suite.skipped)} rows of {name} are no tasks: {suite.skipped[0].reason}")
    return found, remarks


def bound(host: str, port: int) -> socket.socket:
    """A socket at that address that doesn't listen yet.

    Raises:
        UsageError: the address can't be had.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(where)
        except OSError:
            made.close()
            raise
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"can't listen at {host} port {port}: {error}; choose another --host or --port"
        ) from error
    made.setblocking(False)
    return made


def address(listener: socket.socket, host: str, token: str | None) -> str:
    """The endpoint's address as the trainer has to be given it; it can send a token in no other way."""
    if host in ("", "0.0.0.0", "::"):
        host = socket.gethostname()
    user = "" if token is None else f"{USER}:{quote(token, safe='')}@"
    shown = f"[{host}]" if ":" in host else host
    return f"http://{user}{shown}:{listener.getsockname()[1]}{PATH}"


def allow_open_files() -> None:
    """Let this process have as many connections as the system allows: a trainer opens thousands at once."""
    try:
        import resource
    except ModuleNotFoundError:  # only Unix has it
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS calls the limit infinite and refuses it.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
