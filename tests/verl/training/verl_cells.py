"""The prompts of the runs that are compared, and what each step and validation must make of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from verl_plan import DIED, FIXED, HALF, LOST, RIGHT, STRAY, STRUCK, WRONG, Answer, Prompt

__all__ = [
    "ASYNC_TRAINED",
    "ASYNC_TRAINING",
    "LAST",
    "TRAINED",
    "TRAINING",
    "VALIDATED",
    "VALIDATION",
    "advantages",
    "scores",
]

_AGENT = "deepgym_agent"
_SCORES: dict[Answer, float | None] = {RIGHT: 1.0, WRONG: 0.0, LOST: None}
_SCORES |= {FIXED: 1.0, STRAY: 0.0, DIED: 0.0, STRUCK: None}


def _single(name: str, *answers: Answer) -> Prompt:
    return Prompt(name, answers)


def _agent(name: str, *answers: Answer) -> Prompt:
    return Prompt(name, answers, _AGENT)


#: Two prompts a step. Nothing is lost, then one sample, a whole group, all but one of a group, one sample of
#: an agent and one beside it, everything, and nothing again.
TRAINING = (
    _single("a1", RIGHT, WRONG, RIGHT, WRONG),
    _single("a2", RIGHT, HALF, WRONG, WRONG),
    _single("b1", RIGHT, WRONG, RIGHT, WRONG),
    _single("b2", RIGHT, RIGHT, WRONG, LOST),
    _single("c1", RIGHT, WRONG, WRONG, WRONG),
    _single("c2", LOST, LOST, LOST, LOST),
    _single("d1", RIGHT, RIGHT, WRONG, RIGHT),
    _single("d2", LOST, LOST, LOST, RIGHT),
    _agent("e1", FIXED, STRAY, STRUCK, DIED),
    _single("e2", RIGHT, WRONG, WRONG, LOST),
    _single("f1", LOST, LOST, LOST, LOST),
    _single("f2", LOST, LOST, LOST, LOST),
    _single("g1", RIGHT, WRONG, RIGHT, WRONG),
    _single("g2", RIGHT, RIGHT, RIGHT, WRONG),
)
#: The prompts that each step trains on. The trainer `sync` gets no further than `LAST`.
TRAINED = (("a1", "a2"), ("b1", "b2"), ("c1", "c2"), ("d1", "d2"), ("e1", "e2"), ("f1", "f2"), ("g1", "g2"))
LAST = 5

#: Where groups are replaced, what comes after them takes their place.
ASYNC_TRAINING = (
    _single("a1", RIGHT, HALF, WRONG, WRONG),
    _agent("a2", FIXED, STRAY, FIXED, STRAY),
    _single("b1", RIGHT, RIGHT, WRONG, LOST),
    _agent("b2", FIXED, STRAY, STRUCK, DIED),
    _single("c1", LOST, LOST, LOST, LOST),
    _agent("c2", FIXED, FIXED, STRAY, FIXED),
    _single("c3", RIGHT, WRONG, WRONG, WRONG),
    _agent("d1", STRUCK, STRUCK, STRUCK, STRUCK),
    _single("d2", LOST, LOST, LOST, LOST),
    _single("d3", RIGHT, LOST, LOST, LOST),
    _agent("d4", FIXED, STRUCK, STRAY, STRAY),
)
ASYNC_TRAINED = (("a1", "a2"), ("b1", "b2"), ("c2", "c3"), ("d3", "d4"))

#: They come up before the first step and after each: nothing is lost, one sample, a group, everything.
VALIDATION = (
    _single(
        "v1", *(RIGHT, WRONG, RIGHT, WRONG), *(RIGHT, WRONG, LOST, RIGHT), *2 * (RIGHT, WRONG), *4 * (LOST,)
    ),
    _agent("v2", *(FIXED, STRAY, FIXED, DIED), *(FIXED, STRAY, FIXED, FIXED), *8 * (STRUCK,)),
)
#: The scores of each time, in turn and from the beginning.
VALIDATED: tuple[dict[str, list[float | None]], ...] = (
    {"coin_change": [1, 0, 1, 0], "number": [1, 0, 1, 0]},
    {"coin_change": [1, 0, None, 1], "number": [1, 0, 1, 1]},
    {"coin_change": [1, 0, 1, 0], "number": [None] * 4},
    {"coin_change": [None] * 4, "number": [None] * 4},
)


def scores(prompt: Prompt, half: float) -> list[float | None]:
    """What a prompt's samples are worth; ``None``: there is no verdict. ``half`` is what `HALF` is worth."""
    return [half if answer == HALF else _SCORES[answer] for answer in prompt.answers]


def advantages(group: Sequence[float | None]) -> list[float]:
    """Those of GRPO, of what was judged alone: a lost sample has none, and neither has one without siblings."""
    judged = [score for score in group if score is not None]
    if len(judged) < 2:
        return [0.0 for _ in group]
    mean, spread = fmean(judged), stdev(judged)
    return [0.0 if score is None else (score - mean) / (spread + 1e-6) for score in group]
