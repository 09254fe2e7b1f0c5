"""The space of a language model's texts."""

from __future__ import annotations

import string
from typing import Any

from gymnasium.spaces import Space

__all__ = ["AnyText"]

_SAMPLED = string.ascii_letters + string.digits + string.punctuation + " \n\u00e9\u03bb\u6f22\U0001f40d"
_LONGEST_SAMPLE = 80


class AnyText(Space[str]):
    """Every ``str`` of at most ``max_length`` characters; ``gymnasium.spaces.Text`` has a fixed alphabet.

    ``sample`` gives short texts of some of these characters.
    """

    def __init__(self, max_length: int, seed: Any = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length={max_length}: at least one character must be allowed")
        super().__init__(seed=seed)
        self.max_length = max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A short text.

        Raises:
            ValueError: there is a mask or a probability; such a space has none.
        """
        if mask is not None or probability is not None:
            raise ValueError("a space of any text can't be sampled by a mask or a probability")
        length = int(self.np_random.integers(0, min(self.max_length, _LONGEST_SAMPLE) + 1))
        return "".join(_SAMPLED[at] for at in self.np_random.integers(0, len(_SAMPLED), size=length))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a text that isn't too long."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        """Never: there is no array that stands for any text."""
        return False

    def __repr__(self) -> str:
        return f"AnyText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]
