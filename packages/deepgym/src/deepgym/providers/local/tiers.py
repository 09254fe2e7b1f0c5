"""Tiers: what walls the local sandbox's runs have, and which of them this host can give.

``namespaces``   namespaces of their own, a file system of their own, and all that the others have
``landlock``     for hosts that refuse namespaces, stock containers say: Landlock, seccomp, rlimits
``unsafe``       none; for answers that you wrote yourself, and never taken unless asked for by name
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import logging
import platform
import sys
import threading

from deepgym.exceptions import DeepGymError, SandboxError
from deepgym.providers.base import Capabilities

from .cgroup import Group
from .selftest import broken
from .zygotes import Manager, RefusedError

__all__ = ["AUTO", "TIERS", "capabilities", "chosen", "elsewhere", "fallback", "missing", "start"]

AUTO = "auto"
TIERS = ("namespaces", "landlock", "unsafe")
#: Those whose system calls are known by number.
_MACHINES = ("x86_64", "aarch64")
#: What a host answers that won't give a wall, now or later; anything else may pass.
_REFUSALS = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})

_log = logging.getLogger(__name__)
_lock = threading.RLock()
#: Tier: why this host can't give it, ``None`` if it can. Only what is certain stands here.
_known: dict[str, str | None] = {}


def capabilities(tier: str, group: Group | None = None) -> Capabilities:
    """What the walls of ``tier`` enforce, together with a control group, where there is one."""
    walls = tier != "unsafe"
    return Capabilities(
        isolation=tier,
        files="enforced" if walls else "none",
        network="enforced" if walls else "none",
        pids="enforced" if group is not None and group.bounds_pids else "rlimit",
        memory="enforced" if group is not None and group.bounds_memory else "rlimit",
        disk="enforced" if tier == "namespaces" else "rlimit",
    )


def elsewhere() -> str | None:
    """Why the local sandbox can't run on this system at all; ``None`` on Linux."""
    if not sys.platform.startswith("linux"):
        return (
            f"the local sandbox needs Linux, and this is {sys.platform}. Use mode='docker' or a remote "
            "provider, or a Linux machine; everything else in deepgym works here."
        )
    if platform.machine() not in _MACHINES:
        return (
            f"the local sandbox knows {' and '.join(_MACHINES)}, and this is {platform.machine()}. "
            "Use mode='docker' or a remote provider."
        )
    return None


def missing(tier: str) -> str | None:
    """Why this host can't give ``tier``; ``None`` if it can. Tried for real; once, if that is certain."""
    found, _ = _tried(tier)
    return found


def chosen() -> str:
    """The tier of ``isolation="auto"`` on this host.

    Raises:
        SandboxError: neither safe tier can be had (the text has both reasons and the remedy), or it couldn't
            be found out just now.
    """
    reasons = []
    for tier in TIERS[:2]:
        why, certain = _tried(tier)
        if why is None:
            return tier
        if not certain:
            raise SandboxError(why)
        reasons.append(f"{tier}: {why}")
    raise SandboxError(
        "this host can't isolate answers. "
        + " ".join(reasons)
        + " Run `deepgym doctor` for the remedy, or use mode='docker' or a remote provider."
    )


def start(wanted: str) -> Manager:
    """A manager of the tier ``wanted``, or of the one that ``auto`` stands for.

    Raises:
        SandboxError: it can't be had; see ``chosen``.
    """
    if wanted == AUTO:
        return _start_auto()
    if wanted == "landlock" and (why := missing(wanted)) is not None:
        raise SandboxError(why)
    if wanted == "unsafe":
        _say(wanted)
    return Manager(wanted)


def fallback(error: RefusedError) -> Manager:
    """After a refused set-up of ``namespaces``: a manager of the tier that ``auto`` then stands for.

    Raises:
        RefusedError: ``error``, unless this host refuses namespaces for good.
        SandboxError: see ``chosen``.
    """
    if not _for_good(error):
        raise error
    tier = chosen()
    if tier == TIERS[0]:
        raise error
    _say(tier)
    return Manager(tier)


def _start_auto() -> Manager:
    if _known.get(TIERS[0]) is not None:
        tier = chosen()
        _say(tier)
        return Manager(tier)
    try:
        return Manager(TIERS[0])
    except RefusedError as error:
        return fallback(error)


def _for_good(error: RefusedError) -> bool:
    """Whether a step was refused for a reason that won't pass."""
    if error.number != errno.ENOSPC:
        return error.number in _REFUSALS
    # Either as many namespaces as may be are in use just now, or none may ever be.
    for path in glob.glob("/proc/sys/user/max_*_namespaces"):
        with contextlib.suppress(OSError), open(path) as limit:
            if limit.read().strip() == "0":
                return True
    return False


@functools.cache
def _say(tier: str) -> None:
    """Say once that runs have weaker walls than they could have."""
    if tier == "landlock":
        _log.warning(
            "this host refuses namespaces: answers are isolated by Landlock, seccomp and rlimits (tier "
            "'landlock'), without a bound on their disk use as a whole. `deepgym doctor` has the remedy."
        )
    elif tier == "unsafe":
        _log.warning("isolation='unsafe': answers can do here whatever this user can")


def _tried(tier: str) -> tuple[str | None, bool]:
    """Why ``tier`` can't be had, and whether that is certain."""
    if (refusal := elsewhere()) is not None:
        return refusal, True
    with _lock:
        if tier in _known:
            return _known[tier], True
        try:
            why = broken(tier)
        except RefusedError as error:
            if not _for_good(error):
                return str(error), False
            why = str(error)
        except DeepGymError as error:
            return str(error), False
        _known[tier] = why
        return why, True
