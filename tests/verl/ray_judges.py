"""Sandbox providers for reward workers that are processes of Ray's, found there as any other is: by entry points.

`outage` loses what says so; `gated` keeps what says so waiting for a file, or for ever; `noted` writes down
each sandbox that it has and gives back.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio

from deepgym.contract.evidence import Phase
from deepgym.providers.base import Job, Process, Provider, Sandbox, Spec
from deepgym.providers.local import LocalProvider
from deepgym.testing import Behaviour, FakeProvider, Fault, FaultyProvider
from deepgym.testing.fakes import FakeSandbox, job_text

__all__ = ["GATED", "HANGS", "OUTAGE", "PLACE", "gated", "noted", "offer", "outage"]

#: Texts in an answer that make the judge fail.
OUTAGE, GATED, HANGS = "# outage", "# gated", "# hangs"
#: Names the folder of a test's files.
PLACE = "DEEPGYM_VERL_RAY_TESTS"


def offer(folder: Path) -> str:
    """Make these providers known by name to whatever has `folder` in its path."""
    info = folder / "deepgym_verl_ray_tests-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deepgym-verl-ray-tests\nVersion: 1\n")
    names = "\n".join(f"{name} = ray_judges:{name}" for name in ("outage", "gated", "noted"))
    (info / "entry_points.txt").write_text(f"[deepgym.providers]\n{names}\n")
    return str(folder)


class _Marked(FaultyProvider):
    def strikes(self, answer: str) -> bool:
        return OUTAGE in answer


def outage(**options: Any) -> Provider:
    return _Marked(LocalProvider(**options), Fault("network", Phase.IN_PLAY))


def gated(**options: Any) -> Provider:
    from deepgym_verl import judge

    judge.GRACE = 0.1  # type: ignore[misc]
    return _Gated(otherwise=Behaviour.calls(lambda a, b: a + b))


class _Gated(FakeProvider):
    slots = 4

    async def open(self, spec: Spec) -> Sandbox:
        self.opened += 1
        return _GatedSandbox(self, spec, f"gated-{self.opened}")


class _GatedSandbox(FakeSandbox):
    async def start(self, job: Job) -> Process:
        if HANGS in job_text(job):
            await anyio.sleep_forever()
        if GATED in job_text(job):
            gate = Path(os.environ[PLACE], "gate")
            while not gate.exists():
                await anyio.sleep(0.01)
        return await super().start(job)


def noted(**options: Any) -> Provider:
    return _Noted(slots=2, **options)


class _Noted(LocalProvider):
    async def open(self, spec: Spec) -> Any:
        sandbox = await super().open(spec)
        _note("+")
        return _NotedSandbox(sandbox)


class _NotedSandbox:
    def __init__(self, inner: Any) -> None:
        self._inner, self._closed = inner, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            _note("-")
        await self._inner.close()


def _note(mark: str) -> None:
    with Path(os.environ[PLACE], "noted").open("a", encoding="utf-8") as notes:
        notes.write(f"{mark}{os.getpid()}\n")
