"""What an endpoint keeps of a query until it is graded: the code alone, not the prompt and the response."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from deepgym.environments import Environment
from deepgym.extract import extract_code
from deepgym.integrations.labels import Labels, UnknownLabelError
from deepgym.running.batch import Item

from .responses import response_of
from .wire import Query

__all__ = ["Sample", "sample_of"]


@dataclass(frozen=True)
class Sample:
    """One sample to be graded; ``item`` is ``None`` if it can't be, and ``error`` says why."""

    group: bytes = b""
    """Equal for the samples of one prompt and label."""
    item: Item | None = None
    error: str = ""

    @property
    def size(self) -> int:
        """About how many bytes it takes up."""
        return 0 if self.item is None else len(self.item.answer)


def sample_of(labels: Labels, query: Query, check: Callable[[Environment], None]) -> Sample:
    """The sample in ``query``. Never raises.

    Args:
        labels: Where its environment is found.
        query: What the trainer sent.
        check: Raises ``ValueError`` for an environment that can't be used.
    """
    group = _group(query)
    try:
        env = labels.environment(query.label)
        check(env)
        return Sample(group, Item(env, extract_code(response_of(query.text, query.prompt))))
    except (UnknownLabelError, ValueError) as error:
        return Sample(group, error=str(error))
    except Exception as error:  # noqa: BLE001 - the adapter's edge: nothing of ours stops a trainer
        return Sample(group, error=f"{type(error).__name__}: {error}")


def _group(query: Query) -> bytes:
    found = hashlib.sha256(query.prompt.encode("utf-8", "surrogatepass"))
    try:
        label = repr(query.label)
    except RecursionError:
        label = ""
    found.update(b"\0" + label.encode("utf-8", "surrogatepass"))
    return found.digest()
