"""From an action to what is done in the sandbox, and from what came of that to an observation."""

from __future__ import annotations

from deepgym.environments.multi_turn import EpisodeLimits
from deepgym.environments.tools import ToolCall
from deepgym.providers.base import Act, Ran
from deepgym.sandboxed.wire import clean

from .records import Observation

__all__ = ["act_for", "observation", "with_remarks"]

#: Characters of the sandbox's own remarks below a command's output.
_NOTES = 1000


def act_for(call: ToolCall, limits: EpisodeLimits, left: float) -> Act:
    """What ``call``, a valid one, has done in the sandbox. ``left``: seconds for all further steps."""
    said, seconds = call.arguments, max(0.001, min(limits.step, left))
    if call.name == "bash":
        return Act("bash", _bytes(said["command"]), seconds=seconds, output=limits.output)
    if call.name == "python":
        return Act("python", _bytes(said["code"]), seconds=seconds, output=limits.output)
    if call.name == "write_file":
        content = _bytes(said["content"])
        return Act("write", content, path=_path(said["path"]), seconds=seconds, output=limits.output)
    return Act("read", path=_path(said["path"]), seconds=seconds, output=limits.output)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _path(path: str) -> str:
    return _bytes(path).decode().replace("\0", "?")


def observation(call: ToolCall, ran: Ran, seconds: float) -> Observation:
    """What the agent sees of ``ran``, which had so many seconds: its output, and a few remarks."""
    text = ran.output.decode("utf-8", "replace")
    remarks = [ran.note] if ran.note else []
    if ran.error:
        remarks.append(f"it couldn't be started: {ran.error}")
    if ran.timed_out:
        remarks.append(f"it was stopped after {seconds:g} s")
    if ran.code and call.name in ("bash", "python"):
        remarks.append(f"exit status {ran.code}" if ran.code > 0 else f"ended by signal {-ran.code}")
    if call.name == "write_file" and ran.code == 0 and not text:
        text = f"wrote {len(_bytes(call.arguments['content']))} bytes to {call.arguments['path']}\n"
    return Observation(
        text=clean(with_remarks(text, remarks), len(text) + 2 * _NOTES),
        cut=ran.cut,
        exit_code=ran.code,
        timed_out=ran.timed_out,
        seconds=ran.seconds,
    )


def with_remarks(text: str, remarks: list[str]) -> str:
    """A command's output and, on a line of its own, what the sandbox has to say of it."""
    if not remarks:
        return text
    return text + ("" if not text or text.endswith("\n") else "\n") + f"[{'; '.join(remarks)[:_NOTES]}]\n"
