"""What ``deepgym doctor`` says of the local sandbox: every wall is tried, none is assumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from deepgym.exceptions import SandboxError
from deepgym.plugins import Finding
from deepgym.providers.local import tiers

from . import remedies

if TYPE_CHECKING:
    from .trial import Outcome, Trial

__all__ = ["local_sandbox"]

_STRONGER = "Only the tier namespaces has that wall: its own remedy is above."
_REPORT = "Don't run untrusted answers behind this tier here; report this host's kernel and container."


def local_sandbox() -> list[Finding]:
    """Findings for each tier of this host: whether it can be had, what it enforces, and how it stood the
    attacks. Status ``fail``: answers that run by default aren't safe here.

    Never raises for what this host lacks: that is a finding with its remedy.
    """
    refusal = tiers.elsewhere()
    if refusal is not None:
        return [Finding("local sandbox", "fail", refusal, remedies.elsewhere())]
    default = _default()
    found = [*_availability(default)]
    if default is None:
        detail = "isolation='auto' takes none of the tiers here, so answers aren't run"
        found.append(Finding("local sandbox", "fail", detail, remedies.elsewhere()))
    for tier in tiers.TIERS:
        found += _examined(tier, tier == default)
    return found


def _default() -> str | None:
    try:
        return tiers.chosen()
    except SandboxError:
        return None


def _availability(default: str | None) -> Iterator[Finding]:
    name = "can be had"
    fixes = {"namespaces": remedies.for_namespaces, "landlock": remedies.for_landlock}
    for tier in tiers.TIERS[:2]:
        why = tiers.missing(tier)
        if why is not None:
            detail = why.partition(" Run `deepgym doctor`")[0]
            yield Finding(name, "fail" if default is None else "warn", detail, fixes[tier](why), tier, "no")
        elif tier == default:
            yield Finding(name, "ok", "isolation='auto' takes it here", tier=tier, word="by default")
        else:
            yield Finding(name, "ok", f"with isolation={tier!r}", tier=tier, word="by name")
    yield Finding(name, "ok", "with isolation='unsafe', never else", tier="unsafe", word="by name")


def _examined(tier: str, default: bool) -> Iterator[Finding]:
    if tier == "unsafe":
        return _enforced(tier, tiers.capabilities(tier).enforced, False)
    if tiers.missing(tier) is not None:
        return iter(())
    from .trial import put_on_trial

    return _tried(tier, put_on_trial(tier), default)


def _tried(tier: str, trial: Trial, default: bool) -> Iterator[Finding]:
    bad: Literal["warn", "fail"] = "fail" if default else "warn"
    yield from _enforced(tier, trial.enforced, default)
    if trial.failure is not None:
        yield Finding("an honest answer is judged", bad, trial.failure, _REPORT, tier, "no")
        return
    yield Finding("an honest answer is judged", "ok", "it passed", tier=tier, word="yes")
    yield _session(tier, default, bad)
    for outcome in trial.outcomes:
        yield _attacked(tier, outcome, trial.enforced, bad)


def _session(tier: str, default: bool, bad: Literal["warn", "fail"]) -> Finding:
    name = "an agent's session is judged"
    if tier != tiers.TIERS[0]:
        detail = "sessions need the tier namespaces; all else works without"
        return Finding(name, "warn" if default else "ok", detail, _STRONGER, tier, "no")
    from .episode import broken_session

    why = broken_session(tier)
    if why is not None:
        return Finding(name, bad, why, _REPORT, tier, "no")
    return Finding(name, "ok", "it was, and what the agent left running had ended", tier=tier, word="yes")


def _enforced(tier: str, enforced: dict[str, str], default: bool) -> Iterator[Finding]:
    for wall, how in enforced.items():
        name = f"{wall} of a run"
        if how == "enforced" or not default:
            yield Finding(name, "ok", _HOW[how], "", tier, how)
        else:
            remedy = remedies.for_groups() if wall in ("memory", "pids") else _STRONGER
            yield Finding(name, "warn", _HOW[how], remedy, tier, how)


_HOW = {
    "enforced": "bounded for the run as a whole",
    "rlimit": "bounded for each process or file by itself, not for the run as a whole",
    "none": "not bounded",
}


def _attacked(tier: str, outcome: Outcome, enforced: dict[str, str], bad: Literal["warn", "fail"]) -> Finding:
    attack, could, detail = outcome
    name = f"an answer {attack.name}"
    if could is False:
        return Finding(name, "ok", detail, tier=tier, word="held")
    if could and attack.together and enforced.get(attack.wall) != "enforced":
        return Finding(
            name, "ok", f"it could: {attack.wall} has no bound here for a run as a whole", "", tier, "open"
        )
    return Finding(name, bad, detail, _REPORT, tier, "BROKEN" if could else "unknown")
