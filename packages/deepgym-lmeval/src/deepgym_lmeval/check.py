"""What ``deepgym doctor lm-eval`` says: whether the installed lm-eval leaves out what has no verdict.

Nothing of lm-eval is imported here. It runs in a process of its own (``probe``), with its own evaluator, so
an answer is about this installation and not about what a version number promises.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr
from typing import Any

from deepgym.integrations.checking import gathered, own_versions
from deepgym.integrations.probing import answers_of
from deepgym.plugins import Finding

from . import versions
from .versions import INSTALL, SUPPORTED

__all__ = ["findings"]

_REPORT = "report it with the versions of lm-eval, datasets and numpy"
_OTHER = f"don't trust its scores while runs lack a verdict; run: {INSTALL}"


def findings() -> list[Finding]:
    """What was looked at and how it stands. Never raises: what fails is a finding, with its remedy.

    Without lm-eval there is a ``warn`` with the line that installs it, and what can be checked without it.
    """
    return gathered({"packages": _packages, "grading": _grading, "lm-eval's runs": _runs}, _REPORT)


def _packages() -> Iterator[Finding]:
    yield from own_versions("deepgym-lmeval", "lm-eval")
    found = versions.installed()
    if found is None:
        yield Finding("lm-eval", "warn", "lm-eval isn't installed, so nothing of it was tried", INSTALL)
    elif (0, 4, 10) <= versions.numbers(found) < (0, 5):
        yield Finding("lm-eval", "ok", f"{found} ({SUPPORTED})")
    else:
        why = "from 0.5 on a filter gets one response at a time, so that nothing can be graded in one batch"
        if versions.numbers(found) < (0, 4, 10):
            why = "before 0.4.10 it can't be imported beside transformers 5"
        yield Finding("lm-eval", "fail", f"{found}, not {SUPPORTED}: {why}", INSTALL)


def _grading() -> Iterator[Finding]:
    """One reference and one empty answer, graded as an evaluation does it."""
    from deepgym.environments import load_environment

    from .grading import Grader

    environment = load_environment("two_sum")
    grader, pairs = Grader(), [(environment, environment.reference or ""), (environment, "")]
    try:
        with redirect_stderr(io.StringIO()):  # no bar for two runs
            graded = grader.grade(pairs, environment.name)
    finally:
        grader.close()
    scores = [one.score for one in graded]
    name, detail = "grading", f"{environment.name}: reference {scores[0]}, empty answer {scores[1]}"
    lost = next((one for one in graded if not one.has_verdict), None)
    if lost is not None:
        yield Finding(name, "fail", f"{detail}: {lost.error_type}: {lost.error}", "deepgym doctor local")
    elif scores != [1.0, 0.0]:
        yield Finding(name, "fail", detail, "deepgym doctor local")
    elif graded[0].isolation == "unsafe":
        detail += "; answers run without isolation"
        yield Finding(name, "warn", detail, "lm-eval will ask for --confirm_run_unsafe_code")
    else:
        yield Finding(name, "ok", f"{detail}; isolation {graded[0].isolation}")


def _runs() -> Iterator[Finding]:
    if versions.installed() is None:
        return
    answers = answers_of("deepgym_lmeval.probe")
    if isinstance(answers, str):
        yield Finding("lm-eval's runs", "fail", answers, _REPORT)
        return
    for name, key, judged, remedy in (
        ("a task by its name", "by_name", _by_name, _REPORT),
        ("a run without a verdict", "outage", _left_out, _OTHER),
        ("the same on two ranks", "ranks", _ranks, "evaluate in one process"),
        ("the sample log", "log", _logged, _REPORT),
        ("parts of lm-eval that this package uses", "missing", _there, _REPORT),
    ):
        yield _finding(name, answers.get(key), judged, remedy)


def _finding(name: str, answer: Any, judged: Callable[[Any], tuple[bool, str]], remedy: str) -> Finding:
    if answer is None or (isinstance(answer, dict) and "error" in answer):
        why = "no answer" if answer is None else answer["error"]
        return Finding(name, "fail", f"lm-eval failed: {why}", _REPORT)
    holds, detail = judged(answer)
    return Finding(name, "ok" if holds else "fail", detail, "" if holds else remedy)


def _by_name(answer: Mapping[str, Any]) -> tuple[bool, str]:
    """``answer``: the metrics of a reference."""
    score, share = answer.get("deepgym_score"), answer.get("deepgym_verdict")
    return score == share == 1.0, f"the reference of {answer.get('task')} scores {score}"


def _left_out(answer: Mapping[str, Any]) -> tuple[bool, str]:
    """``answer``: metrics of ``documents`` of which one has no verdict and one is wrong, by their names."""
    count = answer["documents"]
    share, score, stderr = (count - 1) / count, (count - 2) / (count - 1), answer.get("deepgym_score_stderr")
    expected = math.sqrt(score * (1 - score) / (count - 2))
    holds = (
        _near(answer.get("deepgym_verdict"), share)
        and _near(answer.get("deepgym_score"), score)
        and _near(answer.get("deepgym_pass"), score)
        and _near(stderr, expected)
    )
    shown = f"deepgym_verdict {_shown(answer.get('deepgym_verdict'))} of {count}"
    shown += f", deepgym_score {_shown(answer.get('deepgym_score'))} ± {_shown(stderr)} of the others"
    if holds:
        return True, f"it is left out: {shown}"
    return False, f"it counts: {shown}; without it {share:.4f}, {score:.4f} ± {expected:.4f}"


def _ranks(answer: Mapping[str, Any]) -> tuple[bool, str]:
    """``answer``: mean and error of two ranks' values, with and without those that are missing."""
    found, expected = answer["with"], answer["without"]
    holds = all(_near(one, other) for one, other in zip(found, expected, strict=True))
    shown = f"{_shown(found[0])} ± {_shown(found[1])}"
    if holds:
        return True, f"its missing value is left out too: {shown}"
    return False, f"its missing value counts: {shown}, not {_shown(expected[0])} ± {_shown(expected[1])}"


def _logged(answer: Any) -> tuple[bool, str]:
    """``answer``: what of the sample log isn't as it should be."""
    return not answer, "each line is JSON, with its runs" if not answer else f"it is wrong: {answer}"


def _there(answer: Any) -> tuple[bool, str]:
    """``answer``: names that the installed lm-eval doesn't have."""
    return not answer, "all are there" if not answer else f"not in this lm-eval: {', '.join(answer)}"


def _near(found: Any, expected: Any) -> bool:
    numbers = isinstance(found, (int, float)) and isinstance(expected, (int, float))
    return numbers and math.isclose(found, expected, abs_tol=1e-9)


def _shown(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, (int, float)) else str(value)
