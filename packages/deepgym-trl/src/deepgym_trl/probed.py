"""What a trainer's answers to a probe say: findings about rows without a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from deepgym.plugins import Finding

__all__ = ["error_of", "left_out", "out_of_loss"]


def left_out(name: str, answer: Any, report: str, instead: str) -> Finding:
    """Whether the third of a group's rows, which has no verdict, moves its siblings.

    ``answer``: ``{"with": four advantages, "without": those of the same group without that row}``.
    ``report`` is the remedy where the trainer failed or says nothing, ``instead`` where the row counts.
    """
    if (error := error_of(answer)) is not None:
        return Finding(name, "fail", f"the trainer failed: {error}", report)
    had, hadnt = answer["with"], answer["without"]
    siblings = [*had[:2], *had[3:]]
    shown = f"advantages {_shown(had)}; the siblings without it {_shown(hadnt)}"
    if not any(hadnt) or not all(map(math.isfinite, [*had, *hadnt])):
        return Finding(name, "fail", f"the trainer's numbers say nothing: {shown}", report)
    moved = any(
        not math.isclose(one, other, abs_tol=1e-5) for one, other in zip(siblings, hadnt, strict=True)
    )
    if had[2] != 0.0 or moved:
        what = "moves its siblings" if moved else "has an advantage of its own"
        return Finding(name, "fail", f"it {what}: {shown}", instead)
    return Finding(name, "ok", f"it moves no sibling: {shown}")


def out_of_loss(name: str, answer: Any, instead: str) -> Finding:
    """Whether of four rows the third, which has no verdict, has no tokens in the loss, as ``answer`` counts
    them.
    """
    if (error := error_of(answer)) is not None:
        return Finding(name, "fail", f"the trainer failed: {error}", instead)
    detail = f"tokens in the loss, by row: {answer}"
    if [count > 0 for count in answer] != [True, True, False, True]:
        return Finding(name, "fail", detail, instead)
    return Finding(name, "ok", f"it is out of the loss too; {detail}")


def error_of(answer: Any) -> str | None:
    """What went wrong instead of an answer; ``None`` if it is one."""
    if answer is None:
        return "no answer"
    return answer.get("error") if isinstance(answer, dict) else None


def _shown(numbers: Sequence[float]) -> str:
    return f"[{', '.join(f'{number:.3f}' for number in numbers)}]"
