"""Whether this host can give the local sandbox its namespaces."""

from __future__ import annotations

from .tiers import missing

__all__ = ["namespaces_missing"]


def namespaces_missing() -> str | None:
    """Why this host can't give a sandbox's namespaces; ``None`` if it can. Tried once, for real."""
    return missing("namespaces")
