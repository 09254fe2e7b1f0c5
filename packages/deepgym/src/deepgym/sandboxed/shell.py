"""An agent's shell: one bash that lives on from step to step."""

from __future__ import annotations

import os
import re

from .agent import OUTPUT, STATUS, Agent

__all__ = ["Shell", "Sink", "without_complaints"]

_CHUNK = 1 << 16
#: Interactive, so that an interrupt drops the whole line and leaves the shell as it is. What it has to say to
#: whoever types (prompts, that there is no terminal) goes to its own stderr, which nobody reads.
_COMMAND = ["bash", "--noediting", "--noprofile", "--norc", "-i", "-s"]


#: What an interactive bash says when a command was ended by a signal and there is no terminal.
_COMPLAINT = re.compile(rb"^bash: \[\d+: \d+ \(\d+\)\] tcsetattr: [^\n]*\n", re.MULTILINE)


def without_complaints(text: bytes) -> bytes:
    """A shell's output without what it says of the terminal that it hasn't."""
    return _COMPLAINT.sub(b"", text) if b"tcsetattr" in text else text


class Sink:
    """What was written, of which a beginning and an end of ``limit`` bytes together are kept."""

    def __init__(self, limit: int) -> None:
        self.limit, self.total = limit, 0
        self.head, self.tail = bytearray(), bytearray()

    def take(self, data: bytes) -> None:
        self.total += len(data)
        room = self.limit // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > self.limit:
            del self.tail[: -(self.limit // 2)]

    def read(self, fd: int) -> bool:
        """Take what can be read at once, a bounded amount; ``False`` at the end."""
        for _ in range(16):
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            self.take(data)
        return True

    def text(self) -> tuple[bytes, int]:
        """The beginning, a line that says what is missing, the end; and how many bytes are missing."""
        head, tail = bytes(self.head[: self.limit // 2]), bytes(self.tail[-(self.limit // 2) :])
        missing = self.total - len(head) - len(tail)
        if missing <= 0:
            return head + tail, 0
        return b"%b\n[%d bytes left out]\n%b" % (head, missing, tail), missing


class Shell:
    """The bash, its input, its output and the line on which it says that a command has ended."""

    def __init__(self, agent: Agent, null: int) -> None:
        """Start it. Raises ``OSError`` if it can't be."""
        inputs, outputs, said = os.pipe(), os.pipe(), os.pipe()
        self.input, self.output, self.said = inputs[1], outputs[0], said[0]
        try:
            agent.give(outputs[1])
            self.pid = agent.start(_COMMAND, inputs[0], outputs[1], err=null, status=said[1])
        except OSError:
            self.close()
            raise
        finally:
            for fd in (inputs[0], outputs[1], said[1]):
                os.close(fd)
        for fd in (self.input, self.output, self.said):
            os.set_blocking(fd, False)
        self.number, self.status, self._last = 0, None, 0  # type: int, int | None, int
        self.pending, self._line = b"", b""
        self.command(b"set +H +o history")

    def command(self, text: bytes) -> None:
        """Have ``text`` run; ``status`` is ``None`` until it has ended."""
        self._last = self.status or 0
        self.number += 1
        self.status, self._line = None, b""
        quoted = text.replace(b"\0", b"").replace(b"'", b"'\\''")
        report = b"printf '%%d:%%d\\n' %d $? >&%d\n" % (self.number, STATUS)
        before = b"_deepgym_status() { return %d; }; _deepgym_status\n" % self._last if self._last else b""
        line = b"eval '%b' </dev/null 2>&%d\n" % (quoted, OUTPUT)
        self.pending += before + line + report

    def feed(self) -> None:
        """Hand on what the shell has room for."""
        try:
            while self.pending:
                self.pending = self.pending[os.write(self.input, self.pending[:_CHUNK]) :]
        except BlockingIOError:
            pass
        except OSError:
            self.pending = b""

    def listen(self) -> bool:
        """Take what it says of its command; ``False`` if nothing more can come."""
        try:
            data = os.read(self.said, 4096)
        except BlockingIOError:
            return True
        except OSError:
            return False
        lines = (self._line + data).split(b"\n")
        self._line = lines.pop()[-64:]
        for line in lines:
            number, _, status = line.partition(b":")
            if number == b"%d" % self.number and status.isdigit() and len(status) < 4:
                self.status = int(status)
        return bool(data)

    def close(self) -> None:
        for fd in (self.input, self.output, self.said):
            os.close(fd)
