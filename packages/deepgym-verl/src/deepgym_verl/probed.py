"""What the probe's answers mean: each as a line of ``deepgym doctor verl``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deepgym.plugins import Finding

from .probe_batches import GROUP

__all__ = ["REPORT", "error_of", "found_in", "graded"]

REPORT = "report it with the versions of verl, ray, transformers and torch; until then train with verl==0.9.1"
_JUDGE = "deepgym doctor local"
_NO_LOOPS = f"don't train with these agent loops; {REPORT}"
_MASKED = {"score": 0.0, "error": 1.0, "tokens": 0}
#: Of the judged rows of ``probe_batches.GROUP``, and of all its rows if one without a verdict isn't in it.
_JUDGED = [0.577, 0.577, -1.155]
_EXACT = [*_JUDGED, 0.0]
_Judged = tuple[bool, str]


def found_in(answers: dict[str, Any], plugins: bool) -> list[Finding]:
    """The findings about the installed verl.

    Args:
        answers: The probe's.
        plugins: Whether verl loads our plugin here; if it doesn't, that has been said already.
    """
    broken = error_of(answers.get("verl", {"error": "no answer"}))
    if broken is not None:
        return [Finding("import verl", "fail", f"it failed: {broken}", REPORT)]
    asked: list[tuple[str, str, Callable[[Any], _Judged], str]] = [
        ("parts of verl that aren't its public interface", "missing", _parts, REPORT),
        ("deepgym_single_turn", "single_turn", _rows, _NO_LOOPS),
        ("deepgym_agent", "agent", _rows, _NO_LOOPS),
        ("a run without a verdict, legacy trainer", "legacy", _masked, _NO_LOOPS),
        ("an agent's, legacy trainer", "agent_legacy", _masked, _NO_LOOPS),
        ("a run without a verdict, v1 trainer", "v1", _raised, _NO_LOOPS),
        ("a run without a verdict, v1's validation", "validation", _masked, _NO_LOOPS),
        ("v1's validation metrics", "validation_metrics", _metrics, REPORT),
        ("advantages, legacy trainer", "advantages", _advantages, _ESTIMATOR),
        ("advantages, v1 trainer", "advantages_v1", _advantages, _ESTIMATOR),
        (
            "grpo with DEEPGYM_VERL_PATCH_GRPO=1",
            "patched",
            _patched,
            "use algorithm.adv_estimator=deepgym_grpo",
        ),
        ("a batch without any verdict, legacy trainer", "all_masked", _goes_on, REPORT),
        ("compute_score in verl's reward manager", "manager", _managed, REPORT),
        ("a run without a verdict in verl's reward manager", "manager_outage", _raised, REPORT),
        ("rate_limited", "rate_limited", _refused, "never set reward.reward_manager.name=rate_limited"),
    ]
    if plugins:
        asked.insert(0, ("names that import verl adds", "registered", _registered, REPORT))
    return [_finding(name, answers.get(key), judged, remedy) for name, key, judged, remedy in asked]


_ESTIMATOR = f"rows without a verdict would move their siblings' advantages; {REPORT}"


def graded(answer: Any) -> Finding:
    """``answer``: scores of a reference and of an empty answer, without verl."""

    def judged(scores: Any) -> _Judged:
        return scores == [1.0, 0.0], _named(scores)

    return _finding("compute_score", answer, judged, _JUDGE)


def error_of(answer: Any) -> str | None:
    """Why a question has no answer; ``None`` if it has one."""
    if isinstance(answer, dict) and "error" in answer and isinstance(answer["error"], str):
        return answer["error"]
    return None


def _finding(name: str, answer: Any, judged: Callable[[Any], _Judged], remedy: str) -> Finding:
    error = "no answer" if answer is None else error_of(answer)
    if error is not None:
        return Finding(name, "fail", f"it failed: {error}", remedy)
    holds, detail = judged(answer)
    return Finding(name, "ok" if holds else "fail", detail, "" if holds else remedy)


def _registered(answer: list[str]) -> _Judged:
    if answer:
        return False, f"not known: {', '.join(answer)}; its plugin wasn't loaded, or too late"
    return True, "agent loops and advantage estimators are known"


def _parts(answer: list[str]) -> _Judged:
    return (
        not answer,
        "all that are used are there" if not answer else f"gone or changed: {', '.join(answer)}",
    )


def _rows(answer: list[dict[str, float]]) -> _Judged:
    """``answer``: what verl is told of a reference and of an empty answer."""
    scores = [row["score"] for row in answer]
    holds = scores == [1.0, 0.0] and all(row["error"] == 0.0 and row["tokens"] > 0 for row in answer)
    return holds, _told(answer)


def _managed(answer: list[dict[str, float]]) -> _Judged:
    holds = [(row["score"], row["error"]) for row in answer] == [(1.0, 0.0), (0.0, 0.0)]
    return holds, _told(answer)


def _told(answer: list[dict[str, float]]) -> str:
    lost = sum(row["error"] != 0.0 for row in answer)
    return _named([row["score"] for row in answer]) + (f"; {lost} without a verdict" if lost else "")


def _masked(answer: Any) -> _Judged:
    holds = answer == _MASKED
    return holds, "a masked row, error 1.0" if holds else f"{answer}, not {_MASKED}"


def _metrics(answer: dict[str, float]) -> _Judged:
    """``answer``: of four samples, one lost and one wrong; verl may count the lost one as wrong."""
    acc, error = answer["acc"], answer["error"]
    holds = error == 0.25 and 0.5 <= acc <= 0.67
    return holds, f"of right, wrong, lost and right: acc {_number(acc)}, error {_number(error)}"


def _raised(answer: Any) -> _Judged:
    holds = answer == "NoVerdictError"
    return holds, "it raises NoVerdictError" if holds else f"{answer}, not NoVerdictError"


def _advantages(answer: dict[str, list[float]]) -> _Judged:
    """Ours have to be right, and the yardstick too; verl's own are only told."""
    ours, judged, grpo = answer["ours"], answer["judged"], answer["grpo"]
    holds = ours == _EXACT and judged == _JUDGED
    detail = f"of {_shown(GROUP)} deepgym_grpo makes {_shown(ours)}"
    if not holds:
        return False, f"{detail}, not {_shown(_EXACT)}; verl without the lost row {_shown(judged)}"
    moves = f"grpo {_shown(grpo)}, so don't use it" if grpo[:3] != judged else "grpo too"
    return True, f"{detail}; {moves}"


def _patched(answer: list[float]) -> _Judged:
    return answer == _EXACT, f"of {_shown(GROUP)} it makes {_shown(answer)}"


def _goes_on(answer: str) -> _Judged:
    return answer == "it goes on", answer


def _refused(answer: str) -> _Judged:
    lost = "turns a run without a verdict into 0"
    if "rate_limited" in answer:
        return True, f"refused for this function, since it {lost}"
    return False, f"it isn't refused for this function, and {lost}"


def _named(scores: Any) -> str:
    if not isinstance(scores, list) or len(scores) != 2:
        return f"scores {scores}"
    return f"reference {_number(scores[0])}, empty answer {_number(scores[1])}"


def _shown(values: Any) -> str:
    return "[" + ", ".join("none" if value is None else _number(value) for value in values) + "]"


def _number(value: Any) -> str:
    return f"{value + 0.0:g}" if isinstance(value, (int, float)) else f"{value}"
