"""An environment's tools as methods that TRL can find, describe to a model and call.

TRL and transformers read a tool's name, signature, annotations and Google docstring; they come from the same
schemas that a session offers, so that a policy is trained with the tools that it is evaluated with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from deepgym.environments.tools import tool_schemas

__all__ = ["Acting", "tool_methods"]


class Acting(Protocol):
    """Whose methods the tools become."""

    def _act(self, name: str, arguments: Mapping[str, Any]) -> str: ...


def tool_methods(names: Iterable[str]) -> dict[str, Callable[..., str]]:
    """A method for each tool, by its name.

    A call never raises for its arguments, whatever they are: ones that are missing, unknown or of a wrong
    type are the policy's mistake, which the session tells it, and which costs it a step.
    """
    return {schema["function"]["name"]: _method(schema["function"]) for schema in tool_schemas(names)}


def _method(function: Mapping[str, Any]) -> Callable[..., str]:
    name: str = function["name"]
    properties: Mapping[str, Any] = function["parameters"]["properties"]
    parameters = tuple(properties)

    def tool(self: Acting, /, *values: Any, **arguments: Any) -> str:
        given = dict(zip(parameters, values, strict=False))
        if len(values) > len(parameters):
            given["argument"] = values[len(parameters)]
        return self._act(name, {**given, **arguments})

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = _docstring(function["description"], properties)
    tool.__annotations__ = dict.fromkeys(parameters, str)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    known = [inspect.Parameter(each, kind, annotation=str) for each in parameters]
    tool.__signature__ = inspect.Signature([inspect.Parameter("self", kind), *known])  # type: ignore[attr-defined]
    return tool


def _docstring(description: str, properties: Mapping[str, Any]) -> str:
    if not properties:
        return description
    lines = [f"    {name}: {about['description']}\n" for name, about in properties.items()]
    return f"{description}\n\nArgs:\n{''.join(lines)}"
