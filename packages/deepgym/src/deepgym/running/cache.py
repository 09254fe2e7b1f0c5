"""A bounded cache of what can be prepared once per environment."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["Cache"]

_T = TypeVar("_T")


class Cache(Generic[_T]):
    """Keeps the last ``size`` values used."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[str, _T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> _T | None:
        """The value, which becomes the last used; ``None`` if it isn't there."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: str, value: _T) -> _T:
        """Keep ``value``, and return it."""
        self._values[key] = value
        if len(self._values) > self._size:
            self._values.popitem(last=False)
        return value
