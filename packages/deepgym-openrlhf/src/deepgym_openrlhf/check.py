"""What ``deepgym doctor openrlhf`` says: whether the installed OpenRLHF understands this endpoint.

Nothing of OpenRLHF is imported here. Its own client runs in a process of its own (``probe``) against an
endpoint on loopback, so an answer is about this installation and not about what a version number promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from deepgym.integrations.checking import gathered, own_versions
from deepgym.integrations.probing import answers_of
from deepgym.plugins import Finding

from . import versions
from .flags import flags_of
from .versions import INSTALL, LOWEST, SUPPORTED

__all__ = ["LOST", "findings"]

_REPORT = "report it with the versions of OpenRLHF, aiohttp, fastapi and uvicorn"
#: What a sample without a verdict gets when it is tried; no verdict gives it.
LOST = -0.25


def findings() -> list[Finding]:
    """What was looked at and how it stands. Never raises: what fails is a finding, with its remedy.

    Without OpenRLHF there is a ``warn`` with the line that installs it, and what can be checked without it.
    """
    return gathered({"packages": _packages, "OpenRLHF's client": _asked}, _REPORT)


def _packages() -> Iterator[Finding]:
    yield from own_versions("deepgym-openrlhf", "openrlhf")
    found = versions.installed()
    if found is None:
        detail = "OpenRLHF isn't installed here, which an endpoint doesn't need"
        yield Finding("openrlhf", "warn", detail, f"where the trainer runs: {INSTALL}")
    elif versions.numbers(found) < LOWEST:
        why = "it sends a whole batch in one request, and its agents have another interface"
        detail = f"{found}, not {SUPPORTED}: {why}"
        yield Finding("openrlhf", "fail", detail, INSTALL)
    else:
        (flags,) = flags_of(found)
        detail = f"{found} ({SUPPORTED}); its flags are {flags.reward} and {flags.agent}"
        yield Finding("openrlhf", "ok", detail)


def _asked() -> Iterator[Finding]:
    """The installed client against an endpoint; without one the endpoint alone."""
    answers = answers_of("deepgym_openrlhf.probe")
    if isinstance(answers, str):
        yield Finding("the endpoint", "fail", answers, _REPORT)
        return
    yield _finding("an empty request", answers.get("empty"), _empty)
    if versions.installed() is None:
        return
    client = answers.get("client")
    if isinstance(client, dict):
        detail = f"it can't be loaded: {client.get('error')}"
        yield Finding("OpenRLHF's client", "fail", detail, "pip install aiohttp, or " + INSTALL)
        return
    yield Finding("OpenRLHF's client", "ok", f"{client} can be loaded")
    for name, key, judged in (
        ("rewards", "rewards", _rewards),
        ("a run without a verdict", "outage", _outage),
        ("two addresses", "several", _rewards),
        ("the agent file", "agent_file", _rewards),
        ("the Python file", "python_file", _rewards),
    ):
        yield _finding(name, answers.get(key), judged)


def _finding(name: str, answer: Any, judged: Callable[[Any], tuple[bool, str]]) -> Finding:
    if answer is None or (isinstance(answer, dict) and "error" in answer):
        why = "no answer" if answer is None else answer["error"]
        return Finding(name, "fail", f"it failed: {why}", _REPORT)
    holds, detail = judged(answer)
    return Finding(name, "ok" if holds else "fail", detail, "" if holds else "deepgym doctor local")


def _rewards(answer: list[dict[str, Any]]) -> tuple[bool, str]:
    """``answer``: what the client understood of a reference and of an empty answer."""
    found = [one["reward"] for one in answer]
    same = len({tuple(one["extra_logs"] or ()) for one in answer}) == 1
    holds = found == [one["scores"] for one in answer] == [[1.0], [0.0]] and same
    named = zip(("reference", "empty answer"), found, strict=False)
    return holds, ", ".join(f"{name} {_first(reward)}" for name, reward in named) or "no rewards"


def _outage(answer: list[dict[str, Any]]) -> tuple[bool, str]:
    """``answer``: what it understood of a run that the provider failed, with a failure score of -0.25."""
    (one,) = answer
    logged = (one["extra_logs"] or {}).get("no_verdict")
    holds = one["reward"] == one["scores"] == [LOST] and logged == [1.0]
    return holds, f"it gets infra_failure_score: {_first(one['reward'])} of {LOST}"


def _empty(answer: Any) -> tuple[bool, str]:
    """``answer``: the endpoint's, to a request without samples."""
    return answer == {"rewards": [], "scores": []}, f"{answer}"


def _first(reward: Any) -> str:
    return f"{reward[0]:g}" if isinstance(reward, list) and len(reward) == 1 else f"{reward}"
