"""The beginning of an episode: a sandbox, the environment's files, its set-up script. All of it is ours."""

from __future__ import annotations

from deepgym.environments.multi_turn import MultiTurnEnvironment
from deepgym.exceptions import SandboxError
from deepgym.providers.base import Act, Hosting, Limits, Place, Provider, Ran, Workspace

__all__ = ["SetupError", "furnish", "host"]


class SetupError(SandboxError):
    """A set-up that would fail again."""


async def host(provider: Provider, env: MultiTurnEnvironment) -> Workspace:
    """A sandbox for an episode of ``env``. Raises ``SandboxError`` if there is none."""
    if not isinstance(provider, Hosting):
        raise SetupError(f"the provider {provider.name!r} has no sandboxes for sessions; use mode='local'")
    limits = env.limits
    bounds = Limits(
        wall=limits.step,
        cpu=limits.actions,
        setup=limits.setup,
        memory=limits.memory,
        processes=limits.processes,
        open_files=limits.open_files,
        file_size=limits.file_size,
        disk=limits.disk,
        files=limits.files,
        output=limits.output,
    )
    return await provider.host(Place(bounds, ("bash", *env.requires)))


async def furnish(workspace: Workspace, env: MultiTurnEnvironment, seed: int) -> None:
    """Put the environment's files into the work directory, and run its set-up script there.

    Raises:
        SetupError: one of them failed; the text has what it wrote.
        SandboxError: the sandbox or its provider did.
    """
    limits = env.limits
    for path, text in env.files.items():
        act = Act("write", text.encode("utf-8", "surrogatepass"), path=path, seconds=limits.setup)
        _require(await workspace.act(act), f"the file {path!r}")
    if env.setup:
        seeded = {"DEEPGYM_SEED": str(seed)}
        act = Act("script", env.setup.encode(), seconds=limits.setup, output=limits.output, env=seeded)
        _require(await workspace.act(act), f"the set-up of environment {env.name!r}")


def _require(ran: Ran, what: str) -> None:
    if ran.code == 0 and not ran.timed_out and not ran.error:
        return
    how = f"status {ran.code}" if ran.code is not None else "no end in time" if ran.timed_out else "no start"
    said = (ran.error or ran.output[-1500:].decode("utf-8", "replace")).strip()
    raise SetupError(f"{what} failed with {how}: {said}")
