"""The code in a completion: one function, used wherever a model's text comes in.

The code is the last fenced block that isn't blank, read as CommonMark reads it. Text without a fence
is code already. Whatever the text is, something comes back: a completion that can't be read is a
wrong answer, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

__all__ = ["Completion", "completion_text", "extract_code", "last_code_block", "strip_reasoning"]

#: A model's text, or the conversation that holds it (messages with ``role`` and ``content``).
Completion = str | Sequence[Mapping[str, Any]] | None

#: The Markdown parser reads the end of a longer text. Its worst case is lines times nesting, so both
#: are bounded: a hostile text costs about a second, not a minute.
MAX_CHARS = 512 * 1024
MAX_LINES = 10_000
MAX_NESTING = 20

_REASONING = re.compile(
    r"""(?P<starts>^[ \t]*)?
        (?<!["'`])                      # a tag in quotes is talked about, not used
        <(?P<closes>/?)(?P<name>think|thinking|thought|reasoning)>
        (?!["']|`(?!``))                # a fence may follow at once
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_END_TOKEN = re.compile(r"(?:<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>|</s>|<eos>|<end_of_turn>)\s*\Z")
_OPENS_WITH_INFO = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})[ \t]*\w", re.MULTILINE)


def extract_code(completion: Completion | Mapping[str, Any]) -> str:
    """The code that ``completion`` answers with, ready to run.

    Text without a fence comes back as it is, without reasoning before it. ``None``, no message and a
    conversation in which the assistant said nothing are the empty answer ``""``.

    Raises:
        TypeError: ``completion`` is neither text nor a list of messages. No text raises.
    """
    text = strip_end_tokens(strip_reasoning(completion_text(completion)))
    if "```" not in text and "~~~" not in text:
        return text
    block = last_code_block(text)
    return text if block is None else block


def completion_text(completion: Completion | Mapping[str, Any]) -> str:
    """The text of ``completion``: itself, or what the assistant said last.

    In a conversation whose messages have no roles the last message counts. Parts of a message are
    joined; parts that aren't text are left out.
    """
    if completion is None:
        return ""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Mapping):
        return _message_text(_message(completion))
    messages = _listed(completion, "a completion is text or a list of messages")
    for message in messages:
        _message(message)
    said = [message for message in messages if message.get("role") == "assistant"]
    if not said and not any(message.get("role") for message in messages):
        said = messages
    return _message_text(said[-1]) if said else ""


def _message(message: object) -> Mapping[str, Any]:
    """``message``, if it is one: in another form it would be read as an empty answer, and earn a 0."""
    if not isinstance(message, Mapping):
        raise TypeError(f"a message is a mapping with 'role' and 'content', not {type(message).__name__}")
    if "role" not in message and "content" not in message:
        keys = ", ".join(sorted(map(repr, message))) or "nothing"
        raise TypeError(f"a message is a mapping with 'role' and 'content', and one has {keys:.80}")
    return message


def _listed(value: object, expected: str) -> list[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        raise TypeError(f"{expected}, not {type(value).__name__}")
    return list(value)


def _message_text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = _listed(content, "a message's content is text or a list of parts")
    return "".join(_part_text(part) for part in parts)


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        text = part.get("text")
        return text if part.get("type", "text") == "text" and isinstance(text, str) else ""
    raise TypeError(f"a content part is text or a mapping with 'type', not {type(part).__name__}")


def strip_reasoning(text: str) -> str:
    """``text`` without what stands in reasoning tags (``<think>`` and its relatives).

    A closing tag without an opening one (the chat template wrote that) ends reasoning that began with
    the text. An opening tag that is never closed hides nothing: it alone goes. Pairs that open in the
    middle of a line, and tags in quotes, are text about tags and stay.
    """
    kept: list[str] = []
    done = 0
    opened: re.Match[str] | None = None
    for tag in _REASONING.finditer(text):
        if opened is None and not tag["closes"]:
            opened = tag
        elif opened is None:
            kept, done = [], tag.end()
        elif tag["closes"] and tag["name"].lower() == opened["name"].lower():
            if _is_structure(opened, done):
                kept.append(text[done : opened.start()])
                done = tag.end()
            opened = None
    if opened is not None and _is_structure(opened, done):
        kept.append(text[done : opened.start()])
        done = opened.end()
    return "".join(kept) + text[done:] if done else text


def _is_structure(opening: re.Match[str], done: int) -> bool:
    return opening["starts"] is not None or opening.start() == done


def strip_end_tokens(text: str) -> str:
    """``text`` without a chat template's end tokens (``<|im_end|>``, ``</s>``) behind it."""
    for _ in range(8):
        token = _END_TOKEN.search(text, max(0, len(text) - 80))
        if token is None:
            break
        text = text[: token.start()]
    return text


def last_code_block(text: str) -> str | None:
    """Content of the last fenced code block in ``text`` that isn't blank; ``None`` if there is none.

    CommonMark decides what a fence is, with one difference: HTML blocks are ordinary text, so that a
    fence right after a line such as ``<answer>`` is a fence.
    """
    source = _end_of(text.replace("\r\n", "\n").replace("\r", "\n"))
    try:
        tokens = _parser().parse(source)
    except (RecursionError, RuntimeError, IndexError, ValueError):
        return None
    for token in reversed(tokens):
        if token.type == "fence" and token.content.strip():
            return token.content
    return None


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING})
    parser.core.ruler.enableOnly(["block"])
    return parser.disable(["html_block", "reference"])


def _end_of(text: str) -> str:
    """``text``, or so much of its end as may be parsed.

    The cut falls on a fence with an info string where there is one: no closing fence has any, so what
    opens and what closes can't be taken for each other.
    """
    start = max(0, len(text) - MAX_CHARS)
    if text.count("\n", start) >= MAX_LINES:
        start = _line_from_end(text, MAX_LINES)
    if start == 0:
        return text
    opening = _OPENS_WITH_INFO.search(text, start)
    if opening is not None:
        return text[opening.start() :]
    return text[text.find("\n", start) + 1 :]


def _line_from_end(text: str, lines: int) -> int:
    at = len(text)
    for _ in range(lines):
        at = text.rfind("\n", 0, at)
    return at
