"""What breaks under an episode, as context managers around a point of its way; see ``faults``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from deepgym.providers.local import cgroup, slots

from . import episode_seams as seams
from . import faults
from .scene import FaultContext

__all__ = [
    "afterwards",
    "close_provider",
    "kill_first",
    "kill_manager",
    "no_descriptors",
    "no_slots",
    "no_thread",
    "stall",
    "stop_first",
    "ungrouped",
]


def _fault(action: Callable[[Any], bool]) -> FaultContext:
    @contextlib.contextmanager
    def around(strike: Any) -> Iterator[None]:
        if action(strike):
            strike.hit()
        yield

    return around


def kill_first() -> FaultContext:
    """The sandbox's first process: SIGKILL."""
    return _fault(lambda strike: seams.end_first(strike.session))


def stop_first() -> FaultContext:
    """The same: SIGSTOP."""
    return _fault(lambda strike: seams.stop_first(strike.session))


def kill_manager() -> FaultContext:
    return _fault(lambda strike: seams.kill_manager(strike.client))


def no_thread() -> FaultContext:
    return faults.raising(lambda: RuntimeError("can't start new thread"))


def afterwards(fault: FaultContext) -> FaultContext:
    """The same, once what happens at the point is done."""

    @contextlib.contextmanager
    def around(strike: Any) -> Iterator[None]:
        yield
        with fault(strike):
            pass

    return around


def stall(seconds: float) -> FaultContext:
    """The event loop does nothing for a while."""

    def action(strike: Any) -> bool:
        time.sleep(seconds)
        return True

    return _fault(action)


def close_provider() -> FaultContext:
    """Somebody closes what the client stands on."""

    def action(strike: Any) -> bool:
        pool = strike.client.provider._open
        pool.close()
        strike.client.provider._open = None
        return True

    return _fault(action)


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


def _unlocked(strike: Any) -> None:
    """Close the files of the host's slots, so that they have to be opened again."""
    pool = strike.client.provider._open
    if pool is not None and not pool.in_use:
        pool._host.forget()


def no_slots() -> FaultContext:
    """The directory of the host's slots can't be used."""

    @contextlib.contextmanager
    def around(strike: Any) -> Iterator[None]:
        _unlocked(strike)
        strike.hit()
        with _replaced(slots, "_directory", lambda: "/proc/version/no-folder"):
            yield

    return around


def no_descriptors() -> FaultContext:
    """No descriptor is left for a slot's file."""

    @contextlib.contextmanager
    def around(strike: Any) -> Iterator[None]:
        _unlocked(strike)
        with faults.drop_descriptors(strike):
            yield

    return around


_GROUPS: dict[str, tuple[Any, str, Any]] = {
    "none": (cgroup, "_places", lambda: []),
    "procs": (cgroup.Group, "procs", lambda self: ["/no/such/group/cgroup.procs"]),
    "removal": (cgroup, "_remove", lambda path: False),
}


def ungrouped(how: str) -> FaultContext:
    """No control group can be made, joined, or removed."""

    @contextlib.contextmanager
    def around(strike: Any) -> Iterator[None]:
        strike.hit()
        with _replaced(*_GROUPS[how]):
            yield

    return around
