"""Scripts of a folder, shell or Python, as what an episode runs."""

from __future__ import annotations

from typing import Any

from deepgym.exceptions import InvalidEnvironmentError

__all__ = ["as_bash", "as_calls"]

#: A file's ending: the tool that runs it, and the argument that takes its text.
_TOOLS = {".sh": ("bash", "command"), ".py": ("python", "code")}


def as_bash(name: str, text: str, where: str) -> str:
    """A set-up script as bash: a ``.sh`` file as it is, a ``.py`` file fed to ``python3``.

    Raises:
        InvalidEnvironmentError: another ending.
    """
    if _ending(name, where) == ".sh":
        return text
    end = "END_OF_SETUP"
    lines = set(text.splitlines())
    while end in lines:
        end += "_"
    return f"DEEPGYM_SEED=$DEEPGYM_SEED exec python3 - <<'{end}'\n{text.rstrip()}\n{end}\n"


def as_calls(name: str, text: str, where: str) -> list[dict[str, Any]]:
    """A reference from a file: one call of ``bash`` or ``python`` with all of it, then ``submit``.

    Raises:
        InvalidEnvironmentError: another ending.
    """
    tool, argument = _TOOLS[_ending(name, where)]
    return [{"name": tool, "arguments": {argument: text}}, {"name": "submit"}]


def _ending(name: str, where: str) -> str:
    for ending in _TOOLS:
        if name.endswith(ending):
            return ending
    raise InvalidEnvironmentError(f"{where} must be a .sh or a .py file")
