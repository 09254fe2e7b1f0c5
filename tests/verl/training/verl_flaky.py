"""The provider `flaky`: the local sandbox, which fails where what is run says so, and notes each session.

The entry point that offers it stands in each run's folder; see `verl_lab`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from verl_plan import BREAKS, OUTAGE

from deepgym.contract.evidence import Phase
from deepgym.providers.base import Act, Capabilities, Place, Provider, Ran, Sandbox, Spec, Workspace
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider, SessionFault

__all__ = ["flaky"]

_LOST = Fault("network", Phase.IN_PLAY)


def flaky(**options: Any) -> Provider:
    """A provider whose failures depend on nothing but the text, and on how often it came."""
    noted = _Noted(LocalProvider(**options))
    often = FaultyProvider(noted, _LOST, rate=float(os.environ["DEEPGYM_VERL_LOST"]))
    single = _Marked(often, _LOST, OUTAGE)
    struck = _Marked(single, SessionFault("network", "act"), OUTAGE)
    return _Marked(struck, SessionFault("died", "act"), BREAKS)


class _Marked(FaultyProvider):
    def __init__(self, inner: Provider, fault: Fault | SessionFault, mark: str) -> None:
        super().__init__(inner, fault)
        self._mark = mark

    def strikes(self, answer: str) -> bool:
        return self._mark in answer


class _Noted:
    """The local provider, and a line in a file for each session that is opened and closed."""

    name = "flaky"

    def __init__(self, inner: LocalProvider) -> None:
        self.inner = inner

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    async def open(self, spec: Spec) -> Sandbox:
        return await self.inner.open(spec)

    async def host(self, place: Place) -> Workspace:
        workspace = _NotedWorkspace(await self.inner.host(place))
        _note(f"opened {workspace.id}")
        return workspace

    async def close(self) -> None:
        await self.inner.close()


class _NotedWorkspace:
    def __init__(self, inner: Workspace) -> None:
        self.inner, self._closed = inner, False
        self.id, self.capabilities = f"{os.getpid()}-{inner.id}", inner.capabilities

    async def act(self, act: Act) -> Ran:
        return await self.inner.act(act)

    async def copy(self, *, last: bool, room: int, files: int) -> bytes:
        return await self.inner.copy(last=last, room=room, files=files)

    async def close(self) -> None:
        await self.inner.close()
        if not self._closed:
            self._closed = True
            _note(f"closed {self.id}")


def _note(line: str) -> None:
    with Path(os.environ["DEEPGYM_VERL_SESSIONS"]).open("a", encoding="utf-8") as notes:
        notes.write(line + "\n")
