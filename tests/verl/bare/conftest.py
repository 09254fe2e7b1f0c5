"""Judges that hang, block or wait for a gate, and a process whose notes are its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from deepgym import DeepGym
from deepgym.providers.base import Sandbox, Spec
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.laws import SCRIPT


class Waiting(FakeProvider):
    """Runs wait in ``open`` until they are cancelled, or ``let`` go; ``blocking`` has their event loop wait."""

    def __init__(self, script: Any = SCRIPT, *, blocking: bool = False, **more: Any) -> None:
        super().__init__(script, **more)
        self.there, self.gate, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.blocking = blocking
        self.asked = 0

    def let(self) -> None:
        self.gate.set()

    async def open(self, spec: Spec) -> Sandbox:
        self.asked += 1
        self.there.set()
        try:
            if self.blocking:
                self.gate.wait()
            while not self.gate.is_set():
                await anyio.sleep(0.005)
        except BaseException:
            self.stopped.set()
            raise
        return await super().open(spec)


@pytest.fixture
def kit() -> Iterator[SimpleNamespace]:
    """``kit.Waiting``; ``kit.client(provider)`` is a client that is closed in the end."""
    made: list[tuple[DeepGym, Any]] = []

    def client(provider: Any, **options: Any) -> DeepGym:
        made.append((DeepGym(provider=provider, **options), provider))
        return made[-1][0]

    yield SimpleNamespace(Waiting=Waiting, client=client)
    for dg, provider in made:
        if isinstance(provider, Waiting):
            provider.let()
        dg.close()


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the adapter keeps for a whole process is a test's own."""
    from deepgym.integrations.reward import MaskedRate
    from deepgym_verl import judge, reward_fn, siblings, surroundings

    rate = MaskedRate("deepgym_verl")
    for module in (judge, reward_fn):
        monkeypatch.setattr(module, "MASKED", rate)
    judges: dict[Any, Any] = {}
    monkeypatch.setattr(judge, "_judges", judges)
    monkeypatch.setattr(siblings, "_groups", {})
    monkeypatch.setattr(surroundings, "_said", set())
    yield
    for each in judges.values():
        each.close()


@pytest.fixture
def masked() -> Callable[[], int]:
    """How many samples had no verdict so far, in this test."""
    from deepgym_verl import judge

    return lambda: judge.MASKED._masked.total()
