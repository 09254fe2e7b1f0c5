"""What stands for the answer when an agent's work runs again: the program of the solution's own sandbox.

The work directory's frozen copy is the current directory. Everything here shares its process with what the
agent wrote, so all that it returns is a claim.
"""

from __future__ import annotations

# All that is needed is imported before the agent's work can be: nothing planted there is taken for it.
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from http import client as http_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Sources are run, not bytecode that lies beside them and may say something else.
sys.pycache_prefix = "/nonexistent"
sys.dont_write_bytecode = True
_running: list[subprocess.Popen[bytes]] = []


def run(argv: list[str], stdin: str, timeout: float, limit: int, files: dict[str, str]) -> dict[str, Any]:
    """Run a command to its end."""
    for path, text in files.items():
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as target:
            target.write(text)
    out, err = os.memfd_create("out"), os.memfd_create("err")
    timed_out = False
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True
    ) as process:
        try:
            process.communicate(stdin.encode("utf-8", "surrogateescape"), timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _end(process)
    texts = [os.pread(file, limit, 0).decode("utf-8", "replace") for file in (out, err)]
    cut = max(os.fstat(file).st_size for file in (out, err)) > limit
    os.close(out)
    os.close(err)
    return {"out": texts[0], "err": texts[1], "exit": process.returncode, "timed_out": timed_out, "cut": cut}


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def call(module: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function of a module of the work directory."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    target: Any = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    return target(*args, **kwargs)


def start(argv: list[str], port: int | None, timeout: float) -> int | None:
    """Start a command that goes on; whether it listens on ``port`` in time."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    _running.append(process)
    deadline = time.monotonic() + timeout
    while port is not None:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            break
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                return None
            time.sleep(0.01)
    return len(_running) - 1


def stop(number: int, alone: bool) -> None:
    """End a started command, and all else that runs here: it may have left its state with a helper."""
    if alone:
        return _end(_running[number])
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    own = {1, os.getpid()}
    for _ in range(2000):  # a port is free only when whoever shared it is gone, too
        for process in _running:
            process.poll()
        if all(int(name) in own for name in os.listdir("/proc") if name.isdigit()):
            break
        time.sleep(0.001)


def http(
    port: int, method: str, path: str, body: bytes, headers: dict[str, str], timeout: float, limit: int
) -> dict[str, Any]:
    """One request to what listens on ``port``."""
    connection = http_client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return {
            "status": response.status,
            "body": response.read(limit),
            "headers": dict(response.getheaders()[:100]),
        }
    except http_client.HTTPException as error:
        raise ConnectionError(type(error).__name__) from None
    finally:
        connection.close()


def tcp(port: int, data: bytes, timeout: float, limit: int) -> bytes:
    """What comes back for ``data`` from what listens on ``port``."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while len(found) < limit:
            more = connection.recv(min(65536, limit - len(found)))
            if not more:
                break
            found += more
    return found
