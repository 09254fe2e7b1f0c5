"""A validation error as sentences: the field, the value that stands there, and what would do."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ValidationError

__all__ = ["explained"]

_SHOWN = 8


def explained(error: ValidationError, source: str, model: type[BaseModel]) -> str:
    """One line for each of the first eight problems, after the name of ``source``."""
    problems = error.errors(include_url=False, include_context=False)
    lines = [_problem(problem, model) for problem in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"and {len(problems) - _SHOWN} more")
    return f"{source}: " + "; ".join(lines)


def _problem(problem: Any, model: type[BaseModel]) -> str:
    location = list(problem["loc"])
    field = _dotted(location)
    if problem["type"] == "extra_forbidden":
        return f"{field}: unknown field (got {_shown(problem['input'])}); {_known(location, model)}"
    if problem["type"] == "missing":
        return f"{field}: this field is required"
    message = problem["msg"].removeprefix("Value error, ")
    if field:
        message = f"{field}: {message}"
    return message if isinstance(problem["input"], dict) else f"{message} (got {_shown(problem['input'])})"


def _dotted(location: list[Any]) -> str:
    """``verify.cases[0].weight`` from the location, without the name of the union's member."""
    if len(location) > 2 and location[0] == "verify" and location[1:2] in (["cases"], ["program"]):
        location = ["verify", *location[2:]]
    out = ""
    for part in location:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else str(part)
    return out


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _known(location: list[Any], model: type[BaseModel]) -> str:
    import difflib

    names = _fields(location[:-1], model)
    close = difflib.get_close_matches(str(location[-1]), names, n=2, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "known: " + ", ".join(names)


def _fields(location: list[Any], model: type[BaseModel]) -> list[str]:
    """Field names of the model that ``location`` leads to; a union's member is named after its field."""
    steps = iter(location)
    for step in steps:
        if isinstance(step, int) or step not in model.model_fields:
            continue
        found = _models(model.model_fields[step].annotation)
        if len(found) > 1:
            member = next(steps, None)
            found = [item for item in found if item.model_fields["kind"].default == member] or found
        if found:
            model = found[0]
    return list(model.model_fields)


def _models(annotation: Any) -> list[type[BaseModel]]:
    # On Python 3.10 ``tuple[Case, ...]`` counts as a type, so its arguments come first.
    if not get_args(annotation) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for item in get_args(annotation) for model in _models(item)]
