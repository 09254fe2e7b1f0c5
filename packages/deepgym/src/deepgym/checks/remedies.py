"""Why this host lacks a wall, by what the host itself says, and what to do about it."""

from __future__ import annotations

import os
import re
import sys

from deepgym.plugins import install_line

__all__ = ["elsewhere", "for_groups", "for_landlock", "for_namespaces"]

_SYS_ADMIN = 21
#: The oldest kernels that have what the tiers need.
_NAMESPACES_SINCE, _LANDLOCK_SINCE = (5, 11), (5, 13)
_READABLE = (
    "This interpreter's library is closed to the user ids that answers have: use an interpreter that every "
    "user can read (the system's, or one outside a home directory that is closed)."
)


def elsewhere() -> str:
    """For systems that aren't Linux, and machines whose system calls aren't known."""
    return (
        f"Use another provider: `{install_line('docker')}` and mode='docker', or a remote one (daytona, e2b, "
        "modal); or run on Linux, a virtual machine for example (on Windows: WSL 2)."
    )


def for_namespaces(why: str, root: str = "/") -> str:
    """What to change so that namespaces can be had.

    ``why``: what the attempt failed with. ``root``: where the host's files are looked for.
    """
    host = _Host(root)
    found = [text for applies, text in _causes(host) if applies]
    if "be read" in why:
        found.insert(0, _READABLE)
    return " Also: ".join(found) or _unknown(host)


def _causes(host: _Host) -> list[tuple[bool, str]]:
    closed = [kind for kind in ("user", "pid", "mnt", "net", "ipc") if host.says(_most(kind)) == "0"]
    switches = " ".join(f"user.max_{kind}_namespaces=10000" for kind in closed)
    mine = not host.may_administer()
    return [
        (
            host.release() < _NAMESPACES_SINCE,
            f"This kernel is older than {_dotted(_NAMESPACES_SINCE)}: use a newer one.",
        ),
        (
            mine and host.says("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1",
            "AppArmor keeps user namespaces from ordinary users: "
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` (to keep it, put the same line "
            f"into /etc/sysctl.d), or give {_interpreter()} a profile with `userns,`.",
        ),
        (bool(closed), f"The number of namespaces is bounded by zero: `sudo sysctl -w {switches}`."),
        (
            mine and host.says("proc/sys/kernel/unprivileged_userns_clone") == "0",
            "User namespaces are switched off for ordinary users: "
            "`sudo sysctl -w kernel.unprivileged_userns_clone=1`.",
        ),
        (
            host.filtered(),
            "A system-call filter stands around this process, as in a container: start the container with "
            "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined` (and as root with "
            "`--cap-add SYS_ADMIN`), or with a seccomp profile that allows clone, unshare, setns, mount, "
            "umount2 and pivot_root.",
        ),
        (
            not host.filtered() and host.covered(),
            "Parts of /proc are covered, as in a container, so that no new one can be mounted: start the "
            "container with `--security-opt systempaths=unconfined`.",
        ),
        (
            os.geteuid() == 0 and mine and not host.filtered(),
            "This is root without the capability SYS_ADMIN: run as an ordinary user, or add the capability "
            "(`docker run --cap-add SYS_ADMIN`).",
        ),
    ]


def for_landlock(why: str, root: str = "/") -> str:
    """What to change so that the tier ``landlock`` can be had."""
    host = _Host(root)
    if "be read" in why:
        return _READABLE
    if "too few" in why:
        return "Start this container with more user ids mapped: answers have ids from 1000 on, or from 60000."
    if "no Landlock" in why:
        if host.release() < _LANDLOCK_SINCE:
            return f"This kernel is older than {_dotted(_LANDLOCK_SINCE)}: use a newer one."
        if host.filtered():
            return (
                "A container's seccomp profile may hide it: update the container runtime, or start with "
                f"`--security-opt seccomp=unconfined`. If it doesn't: {_BOOT}"
            )
        return _BOOT[0].upper() + _BOOT[1:]
    return _unknown(host)


_BOOT = (
    "this kernel was built or booted without Landlock; add it to the kernel's parameter `lsm=` (the names in "
    "/sys/kernel/security/lsm, with `landlock` first), and boot again."
)


def for_groups() -> str:
    """What to do where no control group bounds a run's memory and processes together."""
    return (
        "Run where this process may make control groups for memory and processes (as root on the host "
        "itself, or in one that was delegated to this user). Until then keep limits.memory times "
        "limits.processes times the slots below this host's memory."
    )


def _unknown(host: _Host) -> str:
    return (
        "Nothing that is known to refuse it was found here: the message names the step that failed (Linux "
        f"{'.'.join(map(str, host.release()))}, user id {os.geteuid()}). Another provider needs none of "
        f"this: `{install_line('docker')}`."
    )


class _Host:
    """What the files below ``root`` say."""

    def __init__(self, root: str) -> None:
        self._root = root

    def says(self, path: str) -> str:
        """A file's text, empty if it can't be read."""
        try:
            with open(os.path.join(self._root, path), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def release(self) -> tuple[int, ...]:
        """The kernel's version; (0, 0) if nobody says."""
        found = re.match(r"(\d+)\.(\d+)", self.says("proc/sys/kernel/osrelease"))
        return tuple(map(int, found.groups())) if found else (0, 0)

    def filtered(self) -> bool:
        """Whether a system-call filter stands around this process."""
        return re.search(r"^Seccomp:\s*2$", self.says("proc/self/status"), re.M) is not None

    def may_administer(self) -> bool:
        """Whether this process has the capability SYS_ADMIN."""
        found = re.search(r"^CapEff:\s*([0-9a-f]+)$", self.says("proc/self/status"), re.M)
        return found is not None and bool(int(found[1], 16) >> _SYS_ADMIN & 1)

    def covered(self) -> bool:
        """Whether something is mounted over parts of /proc, but for what lies there on every host."""
        mounts = [line.split() for line in self.says("proc/self/mountinfo").splitlines()]
        places = {fields[4] for fields in mounts if len(fields) > 4}
        return any(place.startswith("/proc/") for place in places - {"/proc/sys/fs/binfmt_misc"})


def _most(kind: str) -> str:
    return f"proc/sys/user/max_{kind}_namespaces"


def _interpreter() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
