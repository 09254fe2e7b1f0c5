"""What ``deepgym doctor trl`` says: whether the installed TRL leaves out what has no verdict.

Nothing of TRL is imported here. Its trainers run in a process of their own (``probe``), with their own
advantage code, so an answer is about this installation and not about what a version number promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from deepgym.integrations.checking import gathered, numbers, own_versions, version_of
from deepgym.integrations.probing import answers_of
from deepgym.plugins import Finding

from . import versions
from .probed import error_of, left_out, out_of_loss
from .versions import INSTALL

__all__ = ["SUPPORTED", "findings"]

#: Versions of TRL that the adapter is for: ``versions`` has the reasons.
SUPPORTED = ">=1.6,!=1.15.0"

_REPORT = "report it with the versions of trl, transformers and torch; until then train with trl==1.16.0"
_MOVES = f"don't train with this version: rows without a verdict would be trained on as 0; run: {INSTALL}"


def findings() -> list[Finding]:
    """What was looked at and how it stands. Never raises: what fails is a finding, with its remedy.

    Without TRL there is a ``warn`` with the line that installs it, and what can be checked without it.
    """
    return gathered({"packages": _packages, "grading": _grading, "trainers": _trainers}, _REPORT)


def _packages() -> Iterator[Finding]:
    yield from own_versions("deepgym-trl", "trl")
    trl = version_of("trl")
    if trl is None:
        yield Finding("trl", "warn", "trl isn't installed, so nothing of it was tried", INSTALL)
        return
    yield _trl(trl)
    for name in _missing(trl):
        yield Finding(name, "fail", f"TRL {trl} needs {name}, which isn't installed", INSTALL)
    yield from _for_tools()


def _missing(trl: str) -> list[str]:
    """What TRL can't be imported without; versions before 1.14 import requests without having declared it."""
    needed = ["torch", "transformers", "datasets", *(["requests"] if numbers(trl) < (1, 14) else [])]
    return [name for name in needed if not _is_there(name)]


def _trl(trl: str) -> Finding:
    if not versions.masks(trl):
        why = "before 1.6 it counts a completion without a verdict as 0"
    elif numbers(trl)[:3] == versions.BROKEN:
        why = "it can't train on a machine without triton"
        if _is_there("triton"):
            return Finding("trl", "warn", f"{trl}: {why}; triton is here", INSTALL)
    else:
        return Finding("trl", "ok", f"{trl} ({SUPPORTED})")
    return Finding("trl", "fail", f"{trl}: {why}", INSTALL)


def _for_tools() -> Iterator[Finding]:
    """What ``environment_factory`` needs and TRL doesn't declare."""
    found = version_of("transformers")
    if found is None:
        return
    if numbers(found) < (5, 2):
        detail = f"environment_factory and tools need transformers 5.2, not {found}; the rest works"
        yield Finding("transformers", "warn", detail, 'pip install "transformers>=5.2"')
    elif numbers(found) < (5, 13) and not _is_there("jmespath"):
        detail = f"environment_factory and tools need jmespath beside transformers {found}; the rest works"
        yield Finding("jmespath", "warn", detail, INSTALL)


def _grading() -> Iterator[Finding]:
    """One reference and one empty answer, through a reward function as training makes it."""
    from deepgym.environments import load_environment

    from .rewards import TRLReward

    environment = load_environment("two_sum")
    completions = [f"```python\n{environment.reference}\n```", ""]
    reward = TRLReward(environment, masked=False)
    try:
        results = reward.results(["", ""], completions).results
    finally:
        reward.close()
    rewards = [result.score if result.has_verdict else None for result in results]
    name, detail = "a reward", f"{environment.name}: reference {rewards[0]}, empty answer {rewards[1]}"
    if rewards == [1.0, 0.0]:
        yield Finding(name, "ok", detail)
    elif None in rewards:
        error = next(result for result in results if not result.has_verdict)
        yield Finding(name, "fail", f"{detail}: {error.error_type}: {error.error}", "deepgym doctor local")
    else:
        yield Finding(name, "fail", detail, "deepgym doctor local")


def _trainers() -> Iterator[Finding]:
    trl = version_of("trl")
    if trl is None or _missing(trl):
        return
    answers = answers_of("deepgym_trl.probe")
    if isinstance(answers, str):
        yield Finding("TRL's trainers", "fail", answers, _REPORT)
        return
    for kind in ("grpo", "rloo"):
        yield left_out(f"{kind.upper()}: a row without a verdict", answers.get(kind), _REPORT, _MOVES)
    name, instead = "DeepGymGRPOTrainer: a row without a verdict", "train with TRL's own GRPOTrainer"
    yield out_of_loss(name, answers.get("loss"), instead)
    yield _awaited(answers.get("async"))
    yield _found(answers.get("trainer"))
    yield _tools(answers.get("tools"))
    yield _private(answers.get("missing"))


def _found(answer: Any) -> Finding:
    name = "the trainer that calls"
    if answer is True:
        return Finding(name, "ok", "a reward function finds it, and with it its other reward functions")
    detail = error_of(answer) or "a reward function can't find it"
    remedy = "see to it yourself that no other reward function rewards rows without a verdict"
    return Finding(name, "warn", f"{detail}; so no warning of reward functions that undo the None", remedy)


def _awaited(answer: Any) -> Finding:
    name, error = "the async reward function", error_of(answer)
    if error is not None:
        remedy = "use make_trl_reward_fn, which grades a batch in parallel too"
        return Finding(name, "fail", f"TRL can't use it: {error}", remedy)
    return Finding(name, "ok", "TRL awaits it")


def _tools(answer: Any) -> Finding:
    """Before 1.7 TRL asks for tool calls in a way that transformers has given up in 5.13."""
    name = "an agent's tool calls"
    if answer == ["bash"]:
        return Finding(name, "ok", "TRL reads them")
    why = error_of(answer) or f"it read {answer!r}"
    detail = f"TRL can't read them, so environment_factory is of no use; the rest works: {why}"
    return Finding(name, "warn", detail, 'pip install "trl>=1.7,!=1.15.0"')


def _private(answer: Any) -> Finding:
    name = "parts of TRL that aren't its public interface"
    if isinstance(answer, dict):
        return Finding(name, "fail", f"they can't be looked up: {error_of(answer)}", _REPORT)
    if answer:
        detail = f"not in this TRL: {', '.join(answer)}"
        return Finding(
            name, "warn", detail, "what needs them fails: see the page on TRL; train with trl==1.16.0"
        )
    return Finding(name, "ok", "all that this package uses are there")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
