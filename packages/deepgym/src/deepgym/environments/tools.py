"""What an agent can do in an episode: five tools, their JSON schemas, and calls of them that are checked.

A call comes from the policy, so whatever is wrong with it is told to the policy, never raised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deepgym.environments.verify import Frozen
from deepgym.sandboxed.wire import clean

__all__ = ["TOOL_NAMES", "ToolCall", "ToolName", "read_call", "tool_schemas"]

ToolName = Literal["bash", "python", "write_file", "read_file", "submit"]
TOOL_NAMES: tuple[ToolName, ...] = get_args(ToolName)
#: Characters of one argument.
MAX_TEXT = 1 << 20


class ToolCall(Frozen):
    """One action of an agent: a tool's name and its arguments."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.name, json.dumps(self.arguments, sort_keys=True)))


class _Arguments(BaseModel):
    """The docstring of each is what the policy is told of the tool."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


_Text = Annotated[str, Field(max_length=MAX_TEXT)]
_Path = Annotated[str, Field(min_length=1, max_length=4096)]


class Bash(_Arguments):
    """Run a command in a persistent bash shell that starts in the work directory. Variables, the current
    directory and background jobs last until the episode ends. Returns what was written to stdout and stderr.
    """

    command: _Text = Field(description="The command line, or several lines of shell script.")


class Python(_Arguments):
    """Run Python code in a fresh interpreter in the work directory. Returns what it printed."""

    code: _Text = Field(description="The Python source; print what you want to see.")


class WriteFile(_Arguments):
    """Write a text file, replacing it if it exists. Missing folders are made."""

    path: _Path = Field(description="Path of the file, relative to the work directory or absolute.")
    content: _Text = Field(description="The whole new content of the file.")


class ReadFile(_Arguments):
    """Read a text file."""

    path: _Path = Field(description="Path of the file, relative to the work directory or absolute.")


class Submit(_Arguments):
    """End the episode. The work directory is then graded as it stands."""


_TOOLS: dict[str, type[_Arguments]] = {
    "bash": Bash,
    "python": Python,
    "write_file": WriteFile,
    "read_file": ReadFile,
    "submit": Submit,
}


def tool_schemas(names: Iterable[str] = TOOL_NAMES) -> list[dict[str, Any]]:
    """The tools as chat templates and OpenAI-compatible servers take them: ``{"type": "function", "function":
    {"name", "description", "parameters"}}`` with a JSON schema of the parameters.
    """
    return [{"type": "function", "function": _function(name, _TOOLS[name])} for name in names]


def _function(name: str, arguments: type[_Arguments]) -> dict[str, Any]:
    properties = {
        key: {"type": "string", "description": field.description}
        for key, field in arguments.model_fields.items()
    }
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    parameters["required"] = list(properties)
    parameters["additionalProperties"] = False
    description = " ".join((arguments.__doc__ or "").split())
    return {"name": name, "description": description, "parameters": parameters}


def read_call(action: object, names: Iterable[str] = TOOL_NAMES) -> tuple[ToolCall, str | None]:
    """An agent's action as a call, and what is wrong with it for the agent to read (``None``: nothing).

    ``action`` is a ``ToolCall``; a mapping with ``name`` and ``arguments`` (an object, or its JSON), or an
    OpenAI tool call with these under ``function``; or text, which is a command for ``bash``. Never raises.
    """
    try:
        found = _call(action)
    except Exception:  # noqa: BLE001 - a caller's own object may raise from anywhere
        found = "an action that can't be read"
    allowed = tuple(names)
    if isinstance(found, str):
        return ToolCall(name="invalid"), found
    if found.name not in allowed:
        return found, f"there is no tool {found.name!r:.80}; the tools are {', '.join(allowed)}"
    try:
        _TOOLS[found.name].model_validate(found.arguments)
    except ValidationError as error:
        return found, _explained(found.name, error)
    return found, None


def _call(action: object) -> ToolCall | str:
    if isinstance(action, ToolCall):
        return action
    if isinstance(action, str):
        return ToolCall(name="bash", arguments={"command": action})
    if not isinstance(action, Mapping):
        return f"an action is a tool call or text, not {type(action).__name__}"
    function = action.get("function", action)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return "a tool call needs a name: {'name': 'bash', 'arguments': {'command': 'ls'}}"
    arguments = function.get("arguments")
    if arguments is None:
        arguments = {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            return f"the arguments of {function['name']!r:.80} aren't JSON: {clean(str(error), 200)}"
    if not isinstance(arguments, Mapping):
        return f"the arguments of {function['name']!r:.80} must be an object"
    return ToolCall(
        name=clean(function["name"], 200), arguments={str(key): value for key, value in arguments.items()}
    )


def _explained(name: str, error: ValidationError) -> str:
    found = []
    for problem in error.errors(include_url=False, include_input=False)[:5]:
        field = ".".join(str(part) for part in problem["loc"])[:100]
        text = {"missing": "is missing", "extra_forbidden": "isn't an argument of this tool"}
        found.append(f"{field} {text.get(problem['type'], problem['msg'])}")
    return clean(
        f"{name}: {'; '.join(found)}. Its arguments: {', '.join(_TOOLS[name].model_fields) or 'none'}"
    )
