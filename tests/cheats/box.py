"""A place for naive harnesses: a cheat that wins there must not reach the machine that tests it.

Namespaces of its own, the whole file system read-only but for small memory file systems, no network, bounds
on processes, files and memory, and an end after ``SECONDS``. It shares no code with the sandbox under test.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS = 20
HOME = "/tmp/box"
_MIB = 1 << 20
_BOUNDS = (
    (resource.RLIMIT_AS, 768 * _MIB),
    (resource.RLIMIT_FSIZE, 16 * _MIB),
    (resource.RLIMIT_NOFILE, 256),
    (resource.RLIMIT_CPU, 10),
    (resource.RLIMIT_CORE, 0),
)
_MOUNT_SETATTR, _HERE, _RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1


@dataclass(frozen=True)
class Finished:
    """How a harness ended: its exit status (128 and more for a signal), its output, and whether it had to be stopped."""

    status: int
    stdout: bytes
    stderr: bytes
    stopped: bool


def run(files: dict[str, str], *argv: str, environment: dict[str, str] | None = None) -> Finished:
    """Run ``python *argv`` among ``files`` in the box."""
    order = json.dumps({"files": files, "argv": argv, "environment": environment or {}})
    unshare = shutil.which("unshare")
    if unshare is None:
        raise RuntimeError("the naive harnesses need util-linux's unshare")
    spaces = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc"]
    python = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [unshare, *spaces, python, "-I", "-c", Path(__file__).read_text(encoding="utf-8")],
            stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True, env={"PATH": os.defpath},
        )  # fmt: skip
        stopped = False
        try:
            process.communicate(order.encode("utf-8", "surrogatepass"), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            stopped = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return Finished(process.returncode, out.read(), err.read(), stopped)


def _main() -> None:
    order = json.loads(sys.stdin.buffer.read())
    libc = ctypes.CDLL(None, use_errno=True)
    rule = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    _check(libc.mount(b"proc", b"/proc", b"proc", 14, None))
    _check(libc.syscall(_MOUNT_SETATTR, _HERE, b"/", _RECURSIVE, rule, len(rule)))
    for place in (b"/tmp", b"/dev/shm"):
        _check(libc.mount(b"tmpfs", place, b"tmpfs", 6, b"size=64m,nr_inodes=20000"))
    os.mkdir(HOME)
    os.chdir(HOME)
    for name, text in order["files"].items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        Path(name).write_text(text, encoding="utf-8", errors="surrogatepass")
    for limit, value in _BOUNDS:
        resource.setrlimit(limit, (value, value))
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    settings = {"HOME": HOME, "PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **order["environment"]}
    # The first process of the box can't be killed from inside; a harness can.
    child = os.fork()
    if child == 0:
        os.execve(sys.executable, [sys.executable, *order["argv"]], settings)
    ended = 0
    while ended != child:
        ended, status = os.wait()
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    _main()
