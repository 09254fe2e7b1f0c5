"""What OpenRLHF's trainer sends to a reward endpoint, and what it understands as an answer.

Read off openrlhf 0.8.11 to 0.11.2: a request has one query from 0.9.1 on and a whole share of a batch before;
every attempt that isn't answered with HTTP 200 and JSON is sent again, five times in all, and then the
training run ends. A ``null``, a text, or keys that differ between samples end it at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ATTEMPTS", "ATTEMPT_SECONDS", "MAX_BODY", "PAUSE", "BadRequestError", "Query", "answer", "read"]

#: How often OpenRLHF sends a request, how long it waits for each, and how long between two; its own literals.
ATTEMPTS = 5
ATTEMPT_SECONDS = 180.0
PAUSE = 1.0
#: Bytes of a request's body. A million tokens in one query have room in it several times.
MAX_BODY = 64 << 20


class BadRequestError(ValueError):
    """A body that OpenRLHF can't have sent; the text says what is wrong with it."""


@dataclass(frozen=True)
class Query:
    """One sample: the prompt with the response behind it, the prompt, and the dataset's label."""

    text: str
    prompt: str
    label: object = None


def read(body: bytes) -> list[Query]:
    """The samples of a request, in order; an empty request has none.

    Raises:
        BadRequestError: it isn't a request of OpenRLHF's.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body isn't JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadRequestError(f"the body is a JSON {type(data).__name__}, not an object")
    texts = data.get("query")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequestError("query must be a list of texts")
    prompts, labels = _column(data, "prompts", len(texts)), _column(data, "labels", len(texts))
    if not all(isinstance(prompt, (str, type(None))) for prompt in prompts):
        raise BadRequestError("prompts must be a list of texts")
    rows = zip(texts, prompts, labels, strict=True)
    return [Query(text, prompt or "", label) for text, prompt, label in rows]


def answer(
    rewards: Sequence[float], scores: Sequence[float], logs: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    """The answer to a request, item *i* for query *i*: lists of floats, and the same logs for every sample.

    Raises:
        ValueError: the lists don't fit together, or a log isn't finite; both would end the training run.
    """
    if not len(rewards) == len(scores) == len(logs):
        raise ValueError(f"{len(rewards)} rewards, {len(scores)} scores and {len(logs)} logs")
    found: dict[str, Any] = {"rewards": [float(r) for r in rewards], "scores": [float(s) for s in scores]}
    names = list(logs[0]) if logs else []
    for log in logs:
        if list(log) != names or not all(math.isfinite(value) for value in log.values()):
            raise ValueError(f"logs must be finite and of the same names: {dict(log)!r:.200}")
    if names:
        found["extra_logs"] = {name: [float(log[name]) for log in logs] for name in names}
    return found


def _column(data: Mapping[str, Any], name: str, count: int) -> list[Any]:
    """A list beside ``query``; the oldest clients send none."""
    column = data.get(name)
    if column is None:
        return [None] * count
    if not isinstance(column, list) or len(column) != count:
        raise BadRequestError(f"{name} must be a list as long as query, which has {count} item(s)")
    return column
