"""The first process of a session's sandbox: it starts what the agent asks for, and outlives all of it.

It is pid 1 of the session's own namespaces, so the agent's processes can't end it, and their end is its to
bring about. It does what the supervisor asks over the channel, one request at a time; a request and its reply
are two frames each, JSON and bytes:

    {"do": "bash", "t": s, "limit": n} command         in the shell that lives on
    {"do": "python" | "script", ..} source             in a fresh interpreter, or bash
    {"do": "write", "path": p} content                 {"do": "read", "path": p, "limit": n}
    {"do": "copy", "last": bool, "room": n, "files": n}    the reply is the tree, see ``tree``

Replies: {"exit": status | null, "seconds": s, "timed_out", "cut", "note", "error", "ours"} output.
"""

from __future__ import annotations

import errno
import os
import select
import shlex
import signal
import socket
import struct
import sys
import time
from typing import Any, Callable, NoReturn

from .agent import Agent, make_places
from .filework import read_file, write_file
from .host import read_one
from .shell import Shell, Sink, without_complaints
from .tree import take
from .wire import WORK, decode, encode, frame
from .zygote import Serving

__all__ = ["SessionHost"]

#: Bytes that one step may write before it is ended, whatever is kept of them.
_FLOOD = 256 << 20
#: Seconds that a command may take to end after it was interrupted.
_GRACE = 1.0
#: Seconds for which background jobs go on after a step; enough for a server to start.
_GOES_ON = 2.0
_CLEAR_SECONDS = 10.0
#: What an agent can bring about when a process is to be started; any other failure of that is ours.
_AGENTS = (errno.EAGAIN, errno.ENOMEM)
_NO_ROOM = "the sandbox was out of processes or memory, so everything that ran in it was ended"
_FLOODED = "the command was ended: it wrote more than %d MiB" % (_FLOOD >> 20)


class SessionHost(Serving):
    """See the module."""

    def __init__(self, control: socket.socket, null: int, privileged: bool) -> None:
        self.control, self.null, self.privileged = control, null, privileged
        self.channel = -1
        self.shell: Shell | None = None
        self.awaited: set[int] = set()
        self.ended: dict[int, int] = {}
        self.sinks: dict[int, Sink] = {}
        self.watch = select.poll()
        self.deaths, death = os.pipe()
        for fd in (self.deaths, death):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.set_wakeup_fd(death)

    def serve(self) -> NoReturn:
        """Until the supervisor's end of the channel is closed; all that it started ends with it."""
        message, ancillary, _, _ = self.control.recvmsg(1 << 16, socket.CMSG_SPACE(16))
        if not message:
            os._exit(0)
        (self.channel,) = struct.unpack("i", ancillary[0][2][:4])
        try:
            self._open(decode(message))
            self._send({"ok": True})
        except BaseException as error:
            self._send({"error": "%s: %s" % (type(error).__name__, error)})
            os._exit(1)
        while True:
            self.watch.register(self.channel, select.POLLIN)
            self._rest()
            self.watch.register(self.channel, 0)
            request, data = decode(read_one(self.channel)), read_one(self.channel)
            if request["do"] == "copy":
                self._copy(request)
            else:
                self._signal_all(signal.SIGCONT)
                began = time.monotonic()
                head, body = self._act(request, data)
                self._send({**head, "seconds": time.monotonic() - began}, body)

    def _rest(self) -> None:
        """Wait for a request. What the agent left running soon stands still: it has no core of its own."""
        until = time.monotonic() + _GOES_ON
        while (left := until - time.monotonic()) > 0:
            if self._turn(left):
                return
        self._signal_all(signal.SIGSTOP)
        while not self._turn(None):
            pass

    def _open(self, spec: dict[str, Any]) -> None:
        make_places(spec, self.privileged)
        self.agent = Agent(spec, self.privileged)
        self.limit = spec["output"]
        places = self.agent.environment["PATH"].split(":")
        for name in spec["requires"]:
            if not any(os.access(os.path.join(place, name), os.X_OK) for place in places):
                raise OSError(errno.ENOENT, "the sandbox has no program %r; install it on the host" % name)
        self.watch.register(self.control, select.POLLIN)
        self.watch.register(self.deaths, select.POLLIN)

    def _send(self, head: dict[str, Any], body: bytes = b"") -> None:
        self._write(frame(encode(head)) + frame(body))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.channel, view) :]
        except OSError:
            os._exit(0)  # the supervisor is gone

    def _turn(self, seconds: float | None) -> bool:
        """Handle what happens within ``seconds``; whether the supervisor asks for something."""
        shell, asked = self.shell, False
        if shell is not None:
            if shell.pending:
                shell.feed()
            if shell.pending:
                self.watch.register(shell.input, select.POLLOUT)
        for fd, events in self.watch.poll(None if seconds is None else max(0.0, seconds) * 1000):
            if fd == self.deaths:
                os.read(fd, 4096)
                self._reap()
            elif fd == self.channel:
                if not events & select.POLLIN:
                    os._exit(0)
                asked = True
            elif fd == self.control.fileno():
                os._exit(0)
            elif fd in self.sinks:
                if not self.sinks[fd].read(fd):
                    self._unwatch(fd)
            elif shell is not None and fd == shell.said:
                if not shell.listen():
                    self._unwatch(fd)
            elif shell is not None and fd == shell.input:
                self._unwatch(fd)
        return asked

    def _unwatch(self, fd: int) -> None:
        try:
            self.watch.unregister(fd)
        except KeyError:
            pass  # its other end was closed before

    def _signal_all(self, number: int) -> None:
        """Send a signal to everything that runs here but this process."""
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            pass

    def _reap(self) -> bool:
        """Bury the dead; whether anything lives."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self.awaited:
                self.awaited.discard(pid)
                self.ended[pid] = status

    def _act(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        doing = {"bash": self._bash, "write": self._file, "read": self._file}.get(
            request["do"], self._program
        )
        note = ""
        for last in (False, True):
            try:
                head, body = doing(request, data)
                return {**head, "note": head.get("note") or note}, body
            except OSError as error:
                if last:
                    return {"exit": None, "error": str(error), "ours": error.errno not in _AGENTS}, b""
                self._clear()
                note = _NO_ROOM
        raise AssertionError

    def _bash(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        shell = self._shell()
        # What background jobs wrote since the last step comes first.
        sink = self.sinks[shell.output]
        sink.limit = request["limit"]
        shell.command(data)
        deadline, timed_out, note = time.monotonic() + request["t"], False, ""
        while shell.status is None and shell.pid not in self.ended:
            left = deadline - time.monotonic()
            if left <= 0:
                _signal(shell.pid, signal.SIGKILL if timed_out else signal.SIGINT)
                deadline, timed_out = time.monotonic() + _GRACE, True
            elif sink.total > _FLOOD and not note:
                note = _FLOODED
                _signal(shell.pid, signal.SIGKILL)
            self._turn(left)
        sink.read(shell.output)
        status = shell.status
        if shell.pid in self.ended:
            status = _status(self.ended.pop(shell.pid))
            note = note or "the shell ended; the next command gets a new one"
            self._drop_shell()
        else:
            self.sinks[shell.output] = Sink(self.limit)
        text, missing = sink.text()
        head = {
            "exit": None if timed_out else status,
            "timed_out": timed_out,
            "cut": missing > 0,
            "note": note,
        }
        return head, without_complaints(text)

    def _shell(self) -> Shell:
        if self.shell is not None and self.shell.pid in self.ended:
            del self.ended[self.shell.pid]
            self._drop_shell()
        if self.shell is None:
            self.shell = shell = Shell(self.agent, self.null)
            self.awaited.add(shell.pid)
            self.watch.register(shell.said, select.POLLIN)
            self.watch.register(shell.output, select.POLLIN)
            self.sinks[shell.output] = Sink(self.limit)
        return self.shell

    def _drop_shell(self) -> None:
        shell, self.shell = self.shell, None
        if shell is not None:
            self.awaited.discard(shell.pid)
            self.sinks.pop(shell.output, None)
            for fd in (shell.output, shell.said, shell.input):
                self._unwatch(fd)
            shell.close()

    def _program(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        """Python, or a script for bash, from a file without a name."""
        python = request["do"] == "python"
        source = os.memfd_create("source")
        try:
            given = ["%s=%s\n" % (name, shlex.quote(value)) for name, value in request["env"].items()]
            view = memoryview("".join(given).encode() + data)
            while view:
                view = view[os.write(source, view) :]
            os.lseek(source, 0, os.SEEK_SET)

            def start(out: int) -> int:
                if python:
                    return self.agent.start([sys.executable, "-B", "-"], source, out)
                command = ["bash", "--noprofile", "--norc", "-e", "/dev/fd/47"]
                return self.agent.start(command, self.null, out, script=source)

            return self._run(start, request)
        finally:
            os.close(source)

    def _file(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        path = request["path"]
        if request["do"] == "write":
            return self._run(lambda out: self.agent.call(lambda: write_file(path, data), out), request)
        return self._run(lambda out: self.agent.call(lambda: read_file(path), out), request)

    def _run(self, start: Callable[[int], int], request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Start a process and follow it to its end; what it leaves behind goes on without its output."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        try:
            try:
                self.agent.give(writing)
                pid = start(writing)
                self.awaited.add(pid)
            finally:
                os.close(writing)
            sink = self.sinks[reading] = Sink(request["limit"])
            self.watch.register(reading, select.POLLIN)
            deadline, timed_out, note = time.monotonic() + request["t"], False, ""
            while pid not in self.ended:
                left = deadline - time.monotonic()
                if (left <= 0 and not timed_out) or (sink.total > _FLOOD and not note):
                    timed_out, note = left <= 0, "" if left <= 0 else _FLOODED
                    _signal(pid, signal.SIGKILL)
                self._turn(left if left > 0 else None)
            sink.read(reading)
        finally:
            self.sinks.pop(reading, None)
            self._unwatch(reading)
            os.close(reading)
        status = _status(self.ended.pop(pid))
        text, missing = sink.text()
        head = {
            "exit": None if timed_out else status,
            "timed_out": timed_out,
            "cut": missing > 0,
            "note": note,
        }
        return head, text

    def _clear(self) -> None:
        """End everything that runs here but this process."""
        deadline = time.monotonic() + _CLEAR_SECONDS
        while self._reap():
            self._signal_all(signal.SIGKILL)
            if time.monotonic() > deadline:
                os._exit(1)
            time.sleep(0.0005)
        self.ended.clear()
        self.awaited.clear()
        self._drop_shell()

    def _copy(self, request: dict[str, Any]) -> None:
        if request["last"]:
            self._clear()
        else:
            self._signal_all(signal.SIGSTOP)
        place = os.open(WORK, os.O_RDONLY | os.O_DIRECTORY)
        for data in take(place, request["room"], request["files"]):
            self._write(data)
        os.close(place)
        self._signal_all(signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def _status(status: int) -> int:
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
