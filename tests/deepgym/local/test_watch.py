"""The watch on the answer's copy dates its own run, and no other."""

from __future__ import annotations

import marshal
import os

import anyio
import pytest

from deepgym.providers.base import Job, Spec
from deepgym.providers.local import LocalProvider

pytestmark = pytest.mark.local_sandbox

_READS = marshal.dumps(
    compile("import deepgym_verify as v\nv.solution.source()\nv.report(1.0)\n", "v", "exec")
)
_DOESNT = marshal.dumps(compile("import deepgym_verify as v\nv.report(1.0)\n", "v", "exec"))


def test_what_a_verifier_opens_is_seen_in_its_own_run_alone(local_sandbox: None, own_slots: str) -> None:
    async def opened(provider: LocalProvider, code: bytes | None) -> str:
        sandbox = await provider.open(Spec(verifier=code is not None))
        try:
            if code is not None:
                process = await sandbox.start(Job("verifier", code, answer=b"x"))
                await process.end(20.0)
            return sandbox.opened_by_verifier()
        finally:
            # Nobody has looked at the watch since: the event waits there for the next run.
            verifier = sandbox.slot.verifier
            assert verifier is not None
            assert verifier.answers is not None
            os.close(os.open("solution", os.O_RDONLY, dir_fd=verifier.answers))
            await sandbox.close()

    async def main() -> list[str]:
        provider = LocalProvider(slots=1)
        try:
            return [await opened(provider, code) for code in (_READS, None, _DOESNT, None, _READS)]
        finally:
            await provider.close()

    assert anyio.run(main) == ["watch", "no", "no", "no", "watch"]
