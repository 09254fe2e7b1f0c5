"""What breaks, as context managers around a point of a run's way. Kills, full file systems and used-up
descriptors are real; what can't be had for real is raised.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
from collections.abc import Callable, Iterator
from typing import Any

from .scene import FaultContext, Scene

__all__ = [
    "corrupt",
    "deaf",
    "drop_descriptors",
    "forged",
    "full",
    "jump",
    "kill",
    "kill_manager",
    "kill_zygote",
    "raising",
    "starving",
    "switch",
    "unclonable",
    "unmountable",
]

_rng = random.Random(0)


def _fault(action: Callable[[Scene], bool]) -> FaultContext:
    """A fault that is over before the point is passed."""

    @contextlib.contextmanager
    def around(scene: Scene) -> Iterator[None]:
        if action(scene):
            scene.hit()
        yield

    return around


def kill_zygote(role: str) -> FaultContext:
    return _fault(lambda scene: scene.kill_zygote(role))


def kill_manager() -> FaultContext:
    return _fault(lambda scene: scene.kill_manager())


def kill(role: str, first: bool) -> FaultContext:
    """The run's pid 1, or its own process."""
    return _fault(lambda scene: scene.kill_inside(role, first))


def raising(*kinds: Callable[[], BaseException]) -> FaultContext:
    """One of these exceptions, in our own code."""

    @contextlib.contextmanager
    def around(scene: Scene) -> Iterator[None]:
        scene.hit()
        raise _rng.choice(kinds)()
        yield

    return around


def bugs() -> FaultContext:
    return raising(
        lambda: RuntimeError("a bug of ours"),
        lambda: KeyError("a bug of ours"),
        lambda: AssertionError(),
        lambda: RecursionError("too deep"),
        lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "a bug of ours"),
        lambda: OSError(errno.EIO, "input/output error"),
        lambda: BrokenPipeError(errno.EPIPE, "broken pipe"),
    )


def failing(number: int) -> FaultContext:
    """A system call that we made fails."""
    return raising(lambda: OSError(number, os.strerror(number)))


def no_memory() -> FaultContext:
    return raising(MemoryError)


@contextlib.contextmanager
def drop_descriptors(scene: Scene) -> Iterator[None]:
    """This process can open no further descriptor while the point is passed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(2)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    scene.hit()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def unclonable(role: str) -> FaultContext:
    """The zygote's ``clone`` fails with EAGAIN."""
    return _fault(lambda scene: scene.limit_processes(role))


@contextlib.contextmanager
def full(scene: Scene) -> Iterator[None]:
    """The file system that the answer is written to is full."""
    empty = scene.fill_answers()
    scene.hit()
    try:
        yield
    finally:
        empty()


@contextlib.contextmanager
def unmountable(scene: Scene) -> Iterator[None]:
    """The run's own file system has room for its root alone, so that its set-up fails with ENOSPC."""
    spec = scene.sandbox.spec
    from dataclasses import replace

    scene.sandbox.spec = replace(spec, limits=replace(spec.limits, files=1))
    scene.hit()
    try:
        yield
    finally:
        scene.sandbox.spec = spec


def starving(role: str) -> FaultContext:
    """The kernel ends the process for memory."""
    return _fault(lambda scene: scene.starve(role))


def deaf(data: bytes | None) -> FaultContext:
    """The watch yields ``data``, or an error."""

    def action(scene: Scene) -> bool:
        scene.swap_watch(data)
        return True

    return _fault(action)


def switch(*names: str) -> FaultContext:
    """Turn parts of the provider off for this attempt; a part that is asked for counts as a hit."""

    def prepare(scene: Scene) -> None:
        scene.switches.update(names)
        scene.later(scene.renew)

    return _prepared(prepare)


def _prepared(action: Callable[[Scene], Any]) -> FaultContext:
    """A fault that only strikes later, when what it prepared is met."""

    @contextlib.contextmanager
    def around(scene: Scene) -> Iterator[None]:
        scene.at = "-"
        action(scene)
        yield

    return around


def forged(role: str, message: bytes) -> FaultContext:
    """The zygote's next word on its control socket is garbage."""

    def action(scene: Scene) -> bool:
        scene.forge_control(role, message)
        return True

    return _fault(action)


def corrupt(before_mark: bool, change: Callable[[bytes], bytes]) -> FaultContext:
    """What comes over the channel is changed: its mark, or what follows it."""

    def prepare(scene: Scene) -> None:
        def garble(data: bytes, unmarked: bool) -> bytes:
            if before_mark:
                if not unmarked or scene.struck:
                    return data
                scene.hit()
                return change(data)
            head, rest = (data[:9], data[9:]) if unmarked else (b"", data)
            if not rest:
                return data
            scene.hit()
            return head + change(rest)

        scene.garble = garble

    return _prepared(prepare)


def jump(seconds: float, wall: bool = False, stopped: bool = False) -> FaultContext:
    """A clock jumps; ``stopped``: while the run's process stands still."""

    def action(scene: Scene) -> bool:
        if wall:
            scene.wall_jump = seconds
        else:
            scene.jump = seconds
        return not stopped or scene.stop_inside("solution")

    return _fault(action)


def both(*faults: FaultContext) -> FaultContext:
    """One after the other, as long as each strikes; a hit when all did."""

    @contextlib.contextmanager
    def around(scene: Scene) -> Iterator[None]:
        hits: list[bool] = []
        kept, scene.hit = scene.hit, lambda: hits.append(True)  # type: ignore[method-assign]
        with contextlib.ExitStack() as stack:
            for number, fault in enumerate(faults):
                if len(hits) == number:
                    stack.enter_context(fault(scene))
            scene.hit = kept  # type: ignore[method-assign]
            if len(hits) == len(faults):
                scene.hit()
            yield

    return around


def unreadable(role: str) -> FaultContext:
    """The memory group's counter can't be read."""
    return _fault(lambda scene: scene.hide_counter(role))


def doing(action: Callable[[], object]) -> FaultContext:
    """Whatever ``action`` does."""

    def act(scene: Scene) -> bool:
        scene.hit()
        action()
        return True

    return _fault(act)
