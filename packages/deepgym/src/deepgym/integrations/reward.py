"""Watching how many samples training leaves out."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from deepgym.models import RunResult

__all__ = ["MaskedRate"]

logger = logging.getLogger(__name__)


class MaskedRate:
    """Warns when more than ``limit`` of a ``block`` of consecutive samples got no verdict.

    A policy that learns to bring about failures that get masked escapes their penalty, so a rate that
    climbs is either an outage or such a failure. One warning a block at most, logged as soon as the limit
    is passed, with the masked samples by error type and by environment.

    Safe to use from several threads, picklable, and usable after a fork. It is also an observer: give it
    to a client's ``observers``.
    """

    def __init__(self, name: str = "", *, block: int = 100, limit: int = 5) -> None:
        if not 0 <= limit < block:
            raise ValueError(f"limit is at least 0 and less than block, not {limit} of {block}")
        self.name = name
        self.block = block
        self.limit = limit
        self._seen = 0
        self._masked: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def record(self, result: RunResult, masked: bool | None = None) -> None:
        """Count one sample; ``masked`` says whether it was left out where that isn't ``not has_verdict``."""
        self.count(
            not result.has_verdict if masked is None else masked,
            error_type=result.error_type,
            env_name=result.env_name,
        )

    def record_all(self, results: Iterable[RunResult]) -> None:
        """Count the samples of a batch."""
        for result in results:
            self.record(result)

    def count(self, masked: bool, *, error_type: str | None = None, env_name: str = "") -> None:
        """Count one sample that isn't a ``RunResult``."""
        with self._own_lock():
            warning = self._count(masked, (error_type or "unknown", env_name or "unknown"))
        if warning is not None:
            logger.warning("%s", warning)

    def on_phase(self, index: int, phase: object) -> None:
        """Observer: nothing to do."""

    def on_result(self, index: int, result: RunResult) -> None:
        """Observer: count the result."""
        self.record(result)

    def _count(self, masked: bool, kind: tuple[str, str]) -> str | None:
        self._seen += 1
        warning = None
        if masked:
            self._masked[kind] += 1
            if self._masked.total() == self.limit + 1:
                warning = self._describe()
        if self._seen == self.block:
            self._seen = 0
            self._masked.clear()
        return warning

    def _describe(self) -> str:
        by_error, by_env = Counter[str](), Counter[str]()
        for (error_type, env_name), number in self._masked.items():
            by_error[error_type] += number
            by_env[env_name] += number
        who = f"{self.name}: " if self.name else ""
        return (
            f"{who}{self._masked.total()} of the first {self._seen} samples in a block of {self.block} got "
            f"no verdict ({_listed(by_error)}; environments: {_listed(by_env)}). "
            "Either the infrastructure is failing, or the policy found a failure that gets it masked."
        )

    def _own_lock(self) -> threading.Lock:
        # A lock that another thread held at a fork stays locked in the child for good.
        if self._owner != os.getpid():
            self._lock, self._owner = threading.Lock(), os.getpid()
        return self._lock

    def __getstate__(self) -> dict[str, Any]:
        with self._own_lock():
            state = {**self.__dict__, "_masked": self._masked.copy()}
        del state["_lock"], state["_owner"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _owner=os.getpid())


def _listed(counts: Counter[str]) -> str:
    listed = ", ".join(f"{name} {number}" for name, number in counts.most_common(5))
    return listed + (f", {len(counts) - 5} more" if len(counts) > 5 else "")
