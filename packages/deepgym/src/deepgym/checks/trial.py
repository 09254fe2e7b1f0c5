"""One tier on trial: an honest answer, then every attack, each in a run of its own."""

from __future__ import annotations

import secrets
from typing import Any, Literal, NamedTuple

from deepgym.client import DeepGym
from deepgym.environments.environment import Environment, EnvironmentLimits
from deepgym.environments.verify import Case, Cases, Program
from deepgym.models import MODEL_FAULT_ERRORS, RunResult
from deepgym.providers.local.provider import LocalProvider

from .attack import LIMITS, Attack
from .attacks import ATTACKS, LEFTOVERS, STEALS
from .bait import Bait

__all__ = ["Outcome", "Trial", "put_on_trial"]

_HONEST = "def attempt():\n    return False\n"
_LOOPS = "def attempt():\n    while True:\n        pass\n"
_VERIFY = "def verify(solution):\n    return solution.function('attempt')() is False\n"


class Outcome(NamedTuple):
    """What became of one attack. ``could``: it worked, or (``None``) nobody knows."""

    attack: Attack
    could: bool | None
    detail: str


class Trial(NamedTuple):
    """``enforced``: as in every result of the tier; ``failure``: why an honest answer didn't pass."""

    enforced: dict[str, str]
    outcomes: tuple[Outcome, ...]
    failure: str | None = None


def put_on_trial(tier: str) -> Trial:
    """Attack ``tier``. Needs it to be there; never raises for what an attack does."""
    with DeepGym(provider=LocalProvider(slots=1, isolation=tier)) as client, Bait() as bait:
        honest = _run(client, _environment(), _HONEST)
        if not honest.passed:
            return Trial(honest.enforced, (), f"{honest.error_type}: {honest.error}")
        outcomes = [_tried(client, attack, bait) for attack in ATTACKS]
        outcomes += [_stolen(client, bait), *_leftovers(client, bait), _endless(client)]
        return Trial(honest.enforced, tuple(outcomes))


def _environment(verify: Cases | Program | None = None, **limits: Any) -> Environment:
    # The second case's value is what an attack looks for in its own memory.
    secret = f"deepgym-expected-{secrets.token_hex(16)}"
    cases = Cases(function="attempt", cases=(Case(expected=False), Case(expected=secret)))
    return Environment(
        name="doctor",
        task="Define attempt().",
        verify=verify or cases,
        limits=EnvironmentLimits(**{**LIMITS, **limits}),
    )


class _First(NamedTuple):
    passed: bool
    outcome: str
    message: str
    error_type: str | None
    error: str | None
    enforced: dict[str, str]


def _run(client: DeepGym, env: Environment, answer: str) -> _First:
    (result,) = client.run_batch(env, [answer]).results
    return _first(result)


def _first(result: RunResult) -> _First:
    """A result by its first case, if it has any."""
    case = result.cases[0] if result.cases else None
    passed = result.passed if case is None else case.outcome == "passed" and result.error_type is None
    outcome = case.outcome if case is not None else "passed" if result.passed else "wrong"
    message = case.message if case is not None else ""
    return _First(passed, outcome, message, result.error_type, result.error, result.enforced)


def _tried(client: DeepGym, attack: Attack, bait: Bait) -> Outcome:
    return _outcome(attack, _run(client, _environment(), attack.answer(**bait.constants())))


def _outcome(attack: Attack, ran: _First) -> Outcome:
    if ran.passed:
        return Outcome(attack, False, "it tried and could not")
    if ran.error_type is None and ran.outcome == "wrong":
        return Outcome(attack, True, "it could")
    ended = f"{ran.error_type}: {ran.error}" if ran.error_type else f"{ran.outcome}: {ran.message}"
    if attack.wall in ("memory", "pids") and ran.error_type in MODEL_FAULT_ERRORS - {"solution_timeout"}:
        return Outcome(attack, False, f"its run was ended ({ended})")
    return Outcome(attack, None, f"nobody knows: its run came to another end ({ended})")


def _stolen(client: DeepGym, bait: Bait) -> Outcome:
    known = bait.constants()
    program = Program(source=_VERIFY, files={str(known["NAME"]): "{}"})
    return _outcome(STEALS, _run(client, _environment(program), STEALS.answer(**known)))


def _leftovers(client: DeepGym, bait: Bait) -> list[Outcome]:
    leaves, finds = LEFTOVERS
    left = _run(client, _environment(), leaves.answer(**bait.constants()))
    running = bait.left()
    found = _outcome(finds, _run(client, _environment(), finds.answer(**bait.constants())))
    if not left.passed:
        return [_outcome(leaves, left), found]
    could = bool(running)
    detail = (
        f"process {running[0]} is still there" if could else "nothing of it was left when its run was over"
    )
    return [Outcome(leaves, could, detail), found]


def _endless(client: DeepGym) -> Outcome:
    attack = Attack("runs for ever", "time", "")
    ran = _run(client, _environment(wall=1.0), _LOOPS)
    over: Literal[True, False] = ran.error_type == "solution_timeout"
    return Outcome(attack, not over, "its run was ended at its limit" if over else f"{ran.error_type}")
