"""The parts of a summed reward: calling reward functions of any kind, and making sure of what they return."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

__all__ = ["LARGEST", "Part", "PrivateLoop", "deepgym_of", "distinct_names", "name_of", "outputs"]

logger = logging.getLogger(__name__)

#: The largest size of a value that still adds up: beyond it squares leave float32, in which trainers compute,
#: and one row's infinite deviation would erase the advantages of its whole group.
LARGEST = 1e9

#: Seconds that an async function which blocks its loop may hold up the end of the process.
_STOPPING = 5.0

RewardFunc = Callable[..., Any]


class Part:
    """One reward function of a sum.

    ``judges`` says what its ``None`` means: no verdict on the row (a DeepGym reward), or that the function
    doesn't apply to it.
    """

    def __init__(self, func: RewardFunc | object, *, owner: str, judges: bool, name: str) -> None:
        self.name = name
        if not callable(func) or _is_reward_model(func):
            raise TypeError(
                f"the part {self.name!r} of {owner} is a {type(func).__name__}, not a reward function; "
                "wrap what it does in a function (prompts, completions, **columns) -> a number per completion"
            )
        self.func = func
        self.owner = owner
        self.judges = judges
        self._told = False

    def values(self, returned: object, count: int) -> list[float | None]:
        """What the function returned for ``count`` completions, as one finite number or ``None`` for each.

        A number that isn't finite, or is beyond ``LARGEST``, becomes ``None`` if the part judges (such a
        score is no verdict) and 0.0 if it doesn't; that is logged once.

        Raises:
            TypeError, ValueError: it isn't one number or ``None`` per completion.
        """
        values = [self._number(index, value) for index, value in enumerate(self._items(returned))]
        if len(values) != count:
            raise ValueError(
                f"{self._who()} returned {len(values)} values for {count} completions; return exactly one "
                "per completion, None where it doesn't apply"
            )
        return [self._sound(index, value) for index, value in enumerate(values)]

    def _items(self, returned: object) -> Iterable[object]:
        if isinstance(returned, (str, bytes, dict)) or not hasattr(returned, "__iter__"):
            raise TypeError(
                f"{self._who()} returned {_shown(returned)}; return a list with one number per completion, "
                "None where it doesn't apply"
            )
        try:
            return list(returned)
        except TypeError as error:  # a tensor without dimensions has __iter__
            raise TypeError(
                f"{self._who()} returned {_shown(returned)}; return a list, not one value"
            ) from error

    def _number(self, index: int, value: object) -> float | None:
        if value is None:
            return None
        try:
            if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
                raise TypeError("not a number")
            return float(value)
        except OverflowError:
            return math.inf
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(
                f"{self._who()} returned {_shown(value)} for completion {index}; return a number there, "
                "or None where it doesn't apply"
            ) from error

    def _sound(self, index: int, value: float | None) -> float | None:
        if value is None or abs(value) <= LARGEST:
            return value
        if not self._told:
            self._told = True
            logger.warning(
                "%s returned %r for completion %d, which no trainer can add up; such values %s (said once)",
                self._who(),
                value,
                index,
                "are no verdict" if self.judges else "count as 0.0",
            )
        return None if self.judges else 0.0

    def _who(self) -> str:
        return f"the part {self.name!r} of {self.owner}"


class PrivateLoop:
    """An event loop in a thread of its own, so that async functions can be awaited wherever one is called
    from.

    One loop for all calls: what an async function keeps open (an HTTP client) stays usable. It starts at the
    first use, in a forked child anew, and ends with its owner.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner = 0

    def run(self, awaitables: Sequence[Awaitable[object]]) -> list[object]:
        """Their results, in order, computed side by side. What one raises is raised, the rest cancelled."""
        future = asyncio.run_coroutine_threadsafe(_together(awaitables), self._started())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._owner != os.getpid():
            self._loop, self._owner = asyncio.new_event_loop(), os.getpid()
            thread = threading.Thread(target=_serve, args=(self._loop,), name="deepgym-rewards", daemon=True)
            thread.start()
            weakref.finalize(self, _stop, self._loop, thread, self._owner)
        return self._loop

    def __getstate__(self) -> dict[str, Any]:
        return {"_loop": None, "_owner": 0}


def outputs(funcs: Sequence[RewardFunc], loop: PrivateLoop, call: dict[str, Any]) -> list[object]:
    """What each function returned for ``call``: first the sync ones in order, then the async ones side by
    side.

    An exception of a function is the user's to see, and is raised as it is.
    """
    returned: list[Any] = []
    try:
        for func in funcs:
            returned.append(func(**call))
    except BaseException:
        for one in filter(inspect.iscoroutine, returned):
            one.close()
        raise
    waiting = [index for index, one in enumerate(returned) if inspect.isawaitable(one)]
    if waiting:
        found = loop.run([returned[index] for index in waiting])
        for index, value in zip(waiting, found, strict=True):
            returned[index] = value
    return returned


def name_of(func: object) -> str:
    """The name that a trainer's log gives a reward function."""
    name = getattr(func, "__name__", None)
    while name is None and isinstance(func, functools.partial):
        func = func.func
        name = getattr(func, "__name__", None)
    return name if isinstance(name, str) else type(func).__name__


def distinct_names(funcs: Iterable[object]) -> list[str]:
    """Their names, a repeated one numbered: a log would merge two of one name."""
    found: list[str] = []
    for name in map(name_of, funcs):
        number, unique = 1, name
        while unique in found:
            number += 1
            unique = f"{name}_{number}"
        found.append(unique)
    return found


def deepgym_of(func: object) -> Any:
    """The DeepGym reward (an object with ``rewards_for``) that ``func`` is, is bound to or wraps; or None."""
    if callable(getattr(func, "rewards_for", None)):
        return func
    inside: tuple[object, ...] = ()
    if isinstance(func, functools.partial):
        inside = (func.func, *func.args, *func.keywords.values())
    elif inspect.ismethod(func):
        inside = (func.__self__,)
    elif inspect.isfunction(func) and hasattr(func, "__wrapped__"):
        inside = (func.__wrapped__,)
    return next((found for one in inside if (found := deepgym_of(one)) is not None), None)


async def _together(awaitables: Sequence[Awaitable[object]]) -> list[object]:
    tasks = [asyncio.ensure_future(one) for one in awaitables]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, owner: int) -> None:
    # A forked child has the loop without its thread.
    if owner == os.getpid() and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(_STOPPING)


def _is_reward_model(func: object) -> bool:
    """Whether it's a torch module, told without importing torch."""
    return any(
        base.__name__ == "Module" and base.__module__.startswith("torch.nn") for base in type(func).__mro__
    )


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
