"""What the processes of one evaluation must agree on."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["on_any_rank"]


def on_any_rank(names: Iterable[str], everything: Iterable[str], ranks: int) -> set[str]:
    """The names that some rank of ``ranks`` has; every rank calls this and gets the same.

    lm-eval gathers metrics key by key, so a key that one rank has all must have, and one that none has can be
    left out. ``everything`` where torch doesn't connect the ranks, for then it can't be known.
    """
    if ranks == 1:
        return set(names)
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return set(everything)
    gathered: list[list[str] | None] = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, sorted(names))
    return {name for found in gathered for name in found or ()}
