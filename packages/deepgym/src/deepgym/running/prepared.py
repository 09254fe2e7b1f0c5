"""What can be prepared once per environment: its cases as requests, its verifier compiled."""

from __future__ import annotations

import logging
import marshal
from typing import Any

from deepgym.environments.environment import Environment, EnvironmentLimits
from deepgym.environments.verify import Cases
from deepgym.exceptions import VerifierError
from deepgym.providers.base import Job, Limits, Provider, Sandbox, Spec
from deepgym.sandboxed.values import unpack
from deepgym.sandboxed.wire import decode

from .cache import Cache
from .cases import CasePlan
from .report import split_report

__all__ = ["Prepared", "closed"]

_DRAW = """

def _send():
    import deepgym_verify as host
    host.report(1.0, True, details={"rows": [host.pack(row) for row in draw(host.rng)]})

_send()
"""
_DRAW_LIMITS = Limits(wall=60.0, cpu=60.0)


class Prepared:
    """Kept for the environments that were used last."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._plans: Cache[CasePlan] = Cache(1024)
        self._programs: Cache[bytes] = Cache(1024)

    async def plan(self, env: Environment, seed: int, scale: float, limits: EnvironmentLimits) -> CasePlan:
        """The plan for ``env``'s declared cases, drawn by ``seed``, under ``limits`` that were scaled.

        Raises:
            VerifierError: ``draw`` failed.
            SandboxError: there was no place to run it in.
        """
        verify = env.verify
        assert isinstance(verify, Cases)
        key = env.digest if verify.draw is None else f"{env.digest}:{seed}"
        if scale != 1.0:
            key = f"{key}*{scale}"
        plan = self._plans.get(key)
        if plan is None:
            cases = (
                verify.cases
                if verify.draw is None
                else verify.with_drawn(await self._draw(env, verify, seed))
            )
            plan = self._plans.put(key, CasePlan.make(env, cases, limits))
        return plan

    async def _draw(self, env: Environment, verify: Cases, seed: int) -> list[Any]:
        """Run the environment's ``draw`` in a verifier's sandbox. Raises ``VerifierError`` if it fails."""
        code = self.program(f"draw:{env.digest}", (verify.draw or "") + _DRAW)
        sandbox = await self._provider.open(Spec(_DRAW_LIMITS, verifier=True))
        try:
            process = await sandbox.start(Job("verifier", code, seed=seed))
            ended = await process.end(_DRAW_LIMITS.wall)
        finally:
            await closed(sandbox)
        report, _ = split_report(bytes(process.replies))
        if report is None or ended.code != 0:
            text = bytes(process.stderr)[-1000:].decode("utf-8", "replace").strip()
            raise VerifierError(f"draw of environment {env.name!r} failed: {text or ended}")
        try:
            rows = unpack(decode(report)["details"]["rows"])
        except (ValueError, TypeError, KeyError) as error:
            raise VerifierError(f"draw of environment {env.name!r} gave no rows: {error}") from error
        return list(rows)

    def program(self, key: str, source: str) -> bytes:
        """A verifier program, compiled and marshalled; ``key`` stands for its source."""
        code = self._programs.get(key)
        if code is None:
            code = self._programs.put(key, marshal.dumps(compile(source, "verify.py", "exec")))
        return code


async def closed(sandbox: Sandbox) -> None:
    """Give the place back. What goes wrong here can't change what the run was."""
    try:
        await sandbox.close()
    except Exception:
        logging.getLogger(__name__).warning("closing sandbox %s failed", sandbox.id, exc_info=True)
