"""What a policy is told of its answer's run.

Counts, outcomes, and what the answer itself raised and wrote. Nothing that a verifier said: its messages, its
names of cases and its standard error may hold what it expected.
"""

from __future__ import annotations

from deepgym.environments import Cases, Environment, Program
from deepgym.models import CaseResult, RunResult

__all__ = ["feedback"]

_LINES = 20
_MESSAGE = 300
_OUTPUT = 4000

_FAULTS = {
    "invalid_patch": "the answer contains no unified diff",
    "patch_apply_failed": "the diff doesn't apply",
    "test_infra_tampering": "the diff touches tests or what runs them",
    "solution_error": "the answer's process ended early, or what it gave couldn't be read",
    "solution_timeout": "the answer ran past its time limit",
    "policy_sandbox_failure": "the answer broke its sandbox",
}


def feedback(env: Environment, result: RunResult) -> str:
    """The text for the policy, bounded, valid UTF-8 and without any expected value."""
    parts = [_verdict(result)]
    if result.has_verdict and not result.passed:
        parts += _failed(env, result)
    streams = [("stdout", result.output)]
    if not isinstance(env.verify, Program):  # or the verifier's would stand behind the answer's
        streams.append(("stderr", result.stderr))
    parts += [f"--- {name}\n{_end(text)}" for name, text in streams if text.strip()]
    return "\n".join(parts)


def _verdict(result: RunResult) -> str:
    if not result.has_verdict:
        return "The answer couldn't be judged."
    if result.error_type is not None:
        return f"Failed with score 0.00: {_FAULTS[result.error_type]}."
    cases = len(result.cases)
    if result.passed:
        return f"Passed: all {cases} cases." if cases > 1 else "Passed."
    passed = sum(case.passed for case in result.cases)
    counts = f": {passed} of {cases} cases passed" if cases else ""
    return f"Failed with score {result.score:.2f}{counts}."


def _failed(env: Environment, result: RunResult) -> list[str]:
    alike: dict[str, list[int]] = {}
    for number, case in enumerate(result.cases, 1):
        if case.outcome != "passed":
            alike.setdefault(_outcome(env.verify, case), []).append(number)
    lines = [f"{_named(numbers)}: {outcome}" for outcome, numbers in alike.items()]
    more = len(lines) - _LINES
    return lines[:_LINES] + ([f"and {more} more kinds of failure"] if more > 0 else [])


def _named(numbers: list[int]) -> str:
    """``case 3``, or ``cases 1, 4 to 9``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    shown = [" to ".join(map(str, run)) for run in runs[:_LINES]] + ["..."] * (len(runs) > _LINES)
    return f"case{'s' if len(numbers) > 1 else ''} {', '.join(shown)}"


def _outcome(verify: Cases | Program, case: CaseResult) -> str:
    # Of declared cases alone is the message what the answer raised, or how it ended.
    if case.outcome != "raised" or not case.message or isinstance(verify, Program):
        return case.outcome
    message = case.message[:_MESSAGE]
    return message if verify.function is None else f"raised {message}"


def _end(text: str) -> str:
    text = text.rstrip("\n")
    return text if len(text) <= _OUTPUT else "[...]\n" + text[-_OUTPUT:]
