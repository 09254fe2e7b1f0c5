"""The samples of one prompt, which verl's v1 trainer begins at once in one process."""

from __future__ import annotations

__all__ = ["Group", "join"]


class Group:
    """Those of one ``uid`` that are under way here, and how many of them were judged."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.open = 0
        self.judged = 0

    def leave(self) -> None:
        """One of them is over."""
        self.open -= 1
        if not self.open:
            _groups.pop(self.uid, None)

    @property
    def all_lost(self) -> bool:
        """Whether the one that asks, without a verdict itself, is the last, and none was judged."""
        return self.open <= 1 and not self.judged


_groups: dict[str, Group] = {}


def join(uid: object) -> Group:
    """The group of ``uid``, with one more under way; a group of its own where there is no ``uid``."""
    group = Group("") if uid is None else _groups.setdefault(str(uid), Group(str(uid)))
    group.open += 1
    return group
