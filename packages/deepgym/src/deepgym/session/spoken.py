"""Calls in the text of a message, for models and servers without tool calls of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deepgym.environments.tools import ToolCall
from deepgym.extract import strip_end_tokens, strip_reasoning

__all__ = ["described", "spoken_calls"]

_TAG, _END_TAG = "<tool_call>", "</tool_call>"
_OPENING = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)\n?", re.MULTILINE)
_LANGUAGES = {
    **dict.fromkeys(("bash", "sh", "shell", "zsh"), "bash"),
    **dict.fromkeys(("python", "python3", "py"), "python"),
    **dict.fromkeys(("json", "tool_call"), "json"),
}


def spoken_calls(text: str, *, fences: bool = True) -> list[ToolCall | dict[str, Any]]:
    """The calls in ``text``, as ``step`` takes them; empty if it makes none. Never raises.

    Every ``<tool_call>`` tag is a call. Without one, the last fenced block of bash, Python or a JSON call is
    (unless ``fences`` is false). What stands in reasoning tags isn't said. A tag that holds no call becomes
    one that can't be run, so that the agent is told.
    """
    blocks = list(_blocks(strip_end_tokens(strip_reasoning(text))))
    tagged = [call for kind, body in blocks if kind == _TAG for call in _of_json(body, said=True)]
    if tagged or not fences:
        return tagged
    for kind, body in reversed(blocks):
        calls = _fenced(kind, body)
        if calls:
            return calls
    return []


def _fenced(kind: str, body: str) -> list[ToolCall | dict[str, Any]]:
    language = _LANGUAGES.get(kind)
    if language is None or not body.strip():
        return []
    if language == "json":
        return _of_json(body, said=kind == "tool_call" or '"name"' in body)
    if language == "python":
        return [ToolCall(name="python", arguments={"code": body})]
    if body.strip() == "submit":
        return [ToolCall(name="submit")]
    return [ToolCall(name="bash", arguments={"command": body})]


def _of_json(text: str, *, said: bool) -> list[ToolCall | dict[str, Any]]:
    """The calls in a JSON text. If it was ``said`` to hold one, what is wrong is a call that tells."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return [{"name": "tool_call", "arguments": text}] if said else []
    found = value if isinstance(value, list) else [value]
    if not said and not all(isinstance(one, dict) and _named(one) for one in found):
        return []
    return [_call(one) for one in found]


def _named(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("name"), str) or isinstance(value.get("function"), dict)


def _call(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {"name": None}
    if "parameters" in value and "arguments" not in value:
        return {"name": value.get("name"), "arguments": value["parameters"]}
    return value


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Each fenced block's language and each tag, in order, with what it holds. What isn't closed reaches to
    the end. Takes time linear in the text's length, whatever stands in it.
    """
    text = text.replace("\r\n", "\n")
    at = tag = 0
    while True:
        tag = text.find(_TAG, at) if 0 <= tag < at or tag == 0 else tag
        fence = _OPENING.search(text, at)
        if tag >= 0 and (fence is None or tag < fence.start("mark")):
            start = tag + len(_TAG)
            end = text.find(_END_TAG, start)
            yield _TAG, text[start:] if end < 0 else text[start:end]
            at = len(text) if end < 0 else end + len(_END_TAG)
        elif fence is not None:
            mark, info = fence["mark"], fence["info"].strip()
            at = fence.end()
            if mark[0] == "`" and "`" in info:
                continue
            closing = re.compile(rf"^[ \t]*{mark[0]}{{{len(mark)},}}[ \t]*$", re.MULTILINE).search(text, at)
            end = len(text) if closing is None else closing.start()
            words = info.split(None, 1)
            language = words[0].strip("{}.").lower() if words else ""
            yield language, _dedented(text[at:end], len(fence["indent"]))
            at = len(text) if closing is None else closing.end()
        else:
            return


def _dedented(body: str, width: int) -> str:
    if not width:
        return body
    lines = body.split("\n")
    return "\n".join(line[min(width, len(line) - len(line.lstrip(" \t"))) :] for line in lines)


def described(tools: Sequence[Mapping[str, Any]]) -> str:
    """What a model is told of the tools where they can't be sent as such."""
    functions = [tool["function"] for tool in tools]
    lines = [
        "Act by one fenced block in each message; the last one counts. You then see what came of it.",
        'Any tool is called by a ```json block that holds {"name": "...", "arguments": {...}}. The tools:',
    ]
    for function in functions:
        names = ", ".join(function["parameters"]["properties"])
        lines.append(f"- {function['name']}({names}): {function['description']}")
    short = [name for name in ("bash", "python") if any(function["name"] == name for function in functions)]
    lines += [f"A ```{name} block is a call of {name} with what it holds." for name in short]
    lines.append("A message without a block ends the work, which is then graded as it stands.")
    return "\n".join(lines)
