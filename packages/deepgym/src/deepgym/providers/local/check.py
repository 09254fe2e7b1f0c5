"""Whether this host can give the local sandbox its namespaces."""

from __future__ import annotations

import functools
import sys

from deepgym.exceptions import DeepGymError

__all__ = ["namespaces_missing"]


@functools.cache
def namespaces_missing() -> str | None:
    """Why this host can't give a sandbox's namespaces; ``None`` if it can. Tried once, for real."""
    if not sys.platform.startswith("linux"):
        return f"the local sandbox needs Linux, and this is {sys.platform}"
    from .zygotes import Manager

    try:
        manager = Manager()
    except DeepGymError as error:
        return str(error)
    try:
        manager.zygote("solution", 0, None, []).close()
    except DeepGymError as error:
        return str(error)
    finally:
        manager.close()
    return None
