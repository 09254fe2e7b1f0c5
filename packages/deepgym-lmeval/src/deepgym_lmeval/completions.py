"""What a model without a chat template is asked, where it stops, and the code in what it said.

Such a model continues text, and seldom stops at the end of its function: what it adds isn't its answer.
Its text is read line by line and in linear time; it is never compiled.
"""

from __future__ import annotations

import re

from deepgym.environments import Environment
from deepgym.environments.completion import (
    STRING,
    Line,
    defined_at,
    first_line_stripped,
    head,
    read_lines,
    shifted,
)
from deepgym.extract import extract_code, strip_end_tokens, strip_reasoning

from .bindings import bound
from .pieces import Piece, bare_text, first_fence, looks_like_code, read, without_prose

__all__ = ["code", "prompt", "stops"]

#: None can stand in a function: each begins a line at the margin.
_AFTER_A_BODY = ("\nif __name__", "\nprint(", "\nassert ")
_AFTER_A_FENCE = ("\n```",)
_CLOSES = re.compile(r"[ ]{0,3}`{3,}\s*\Z")
_END = r"<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>|<(?:/s|eos|end_of_turn)>(?=[ \t]*$)"
_END_TOKEN = re.compile(_END, re.MULTILINE)
_STRING_OR_END = re.compile(rf"{STRING.pattern}|{_END}", re.DOTALL | re.MULTILINE)
_INDENT = "    "


def prompt(environment: Environment) -> str:
    """What a base model continues: the code that the task is, or the task and an opened fence."""
    if _is_code(environment):
        return environment.prefix
    opened = f"{environment.task.rstrip()}\n\n```{environment.language}\n"
    prefix = environment.prefix
    return opened + prefix if not prefix or prefix.endswith("\n") else f"{opened}{prefix}\n"


def stops(environment: Environment) -> tuple[str, ...]:
    """Where generation may end; never inside a function. At most 4, which is what OpenAI's API takes."""
    return _AFTER_A_BODY if _is_code(environment) else _AFTER_A_FENCE


def code(environment: Environment, text: str) -> str:
    """The code in ``text``, which continues ``prompt(environment)``; ``environment.complete`` takes it.

    A fence that ``text`` itself opens holds the code. Otherwise the code ends at the closing fence, and
    where a function was to be continued, only that function is kept and what it uses of the text
    below it. Any text gives something: what can't be read is a wrong answer, never an error.
    """
    said = _shortened(strip_reasoning(text.replace("\r\n", "\n").replace("\r", "\n")))
    lines = read_lines(said)
    fence = first_fence(lines)
    if fence is not None and environment.language == "python" and _is_shut(lines, fence):
        said = "".join(line.text for line in lines[fence + 1 :])
        lines = read_lines(said)
        fence = first_fence(lines)
    if fence is not None:
        if _opens(environment, lines, fence):
            return extract_code(said)
        said = "".join(line.text for line in lines[:fence])
    entry_point = environment.entry_point
    if entry_point is None or not environment.prefix or environment.language != "python":
        return said
    return _function(said, entry_point, environment.prefix)


def _is_code(environment: Environment) -> bool:
    """Whether the task is nothing but code to continue, as HumanEval's are."""
    shown = environment.prefix.strip()
    return (
        bool(shown)
        and shown == environment.task.strip()
        and environment.language == "python"
        and environment.entry_point is not None
    )


def _shortened(text: str) -> str:
    """``text`` up to the first end token outside a string, if anything stands before it."""
    for match in _STRING_OR_END.finditer(text):
        found, at = match[0], match.start()
        if found[0] in "\"'" and len(found) > 1 and found[-1] == found[0]:
            continue
        token = _END_TOKEN.search(text, at, match.end())
        if token is not None and text[: token.start()].strip():
            return text[: token.start()]
    return strip_end_tokens(text)


def _is_shut(lines: list[Line], fence: int) -> bool:
    """Whether the text begins with the end of a block that it takes the prompt to have opened."""
    if any(line.code for line in lines[:fence]) or not _CLOSES.match(lines[fence].text):
        return False
    below = next((line for line in lines[fence + 1 :] if line.code), None)
    return below is not None and not looks_like_code(below.text)


def _opens(environment: Environment, lines: list[Line], fence: int) -> bool:
    """Whether the first fence opens a block of the text's own, and isn't where the answer ends."""
    before = next((line for line in lines[:fence] if line.code), None)
    if before is None:
        return True
    if environment.language == "python":
        entry_point = environment.entry_point
        defined = entry_point is not None and defined_at(lines[:fence], entry_point) is not None
        return not defined and not looks_like_code(before.text)
    return _CLOSES.match(lines[fence].text) is None


def _function(text: str, entry_point: str, prefix: str) -> str:
    """The function that ``text`` continues or defines, with what it uses; ``text`` if it is all prose."""
    lines = without_prose(read_lines(text))
    if not lines:
        return text
    pieces = read("".join(line.text for line in lines))
    first = pieces[0]
    if first.kind == "body":
        margin = defined_at(first.lines, entry_point)
        if margin is None:
            return _body(first.text, pieces[1:], entry_point, prefix)
        pieces = read(shifted(first.lines, "", len(margin))) + pieces[1:]
    else:
        statement, *inner = first.statements
        if first_line_stripped(statement, inner):
            indent = min((line.indent for line in inner), key=len)
            body = "".join(line.text for line in first.lines[first.lines.index(statement) :])
            return _body(indent + body, pieces[1:], entry_point, prefix)
    return _at_the_margin(pieces, entry_point, prefix)


def _at_the_margin(pieces: list[Piece], entry_point: str, prefix: str) -> str:
    """A definition of the entry point, or a body all of whose lines lost their indentation."""
    at = next((index for index, piece in enumerate(pieces) if entry_point in piece.defines()), None)
    # At the margin itself, nothing may return.
    returning = [index for index, piece in enumerate(pieces[:at]) if piece.returns()]
    if at is not None and not returning:
        return _definition(pieces, at, entry_point, prefix)
    last = returning[-1] if returning else len(pieces) - 1
    ends = next((index for index in returning if pieces[index].kind == "return"), last)
    lines = [line for piece in pieces[: ends + 1] if piece.kind != "prose" for line in piece.lines]
    return _body(shifted(lines, _INDENT), pieces[ends + 1 :], entry_point, prefix)


def _body(body: str, below: list[Piece], entry_point: str, prefix: str) -> str:
    """An indented body, and of what is below it the definitions that it uses."""
    own = bound(bare_text(prefix)[0]) | {entry_point}
    needs = {name for piece in read(body) for name in piece.needs()}
    return _joined([body, *(piece.text for piece in _needed(needs, own, below))])


def _definition(pieces: list[Piece], at: int, entry_point: str, prefix: str) -> str:
    """The code up to the entry point's definition, and of what is below it the definitions that it uses."""
    kept = [piece for piece in pieces[:at] if piece.kind not in ("prose", "decorator", "test")]
    kept.append(pieces[at])
    given = read(head(prefix, entry_point))
    own = {name for piece in given + kept for name in piece.defines()} | {entry_point}
    needs = {name for piece in kept for name in piece.needs()}
    return _joined([piece.text for piece in kept + _needed(needs, own, pieces[at + 1 :])])


def _needed(needs: set[str], own: set[str], below: list[Piece]) -> list[Piece]:
    """The pieces that define what is needed, and what those need in turn; the first of each name."""
    where: dict[str, int] = {}
    for index, piece in enumerate(below):
        names = piece.defines()
        if not piece.broken and not own.intersection(names):
            for name in names:
                where.setdefault(name, index)
    kept: set[int] = set()
    wanted = [name for name in needs if name in where]
    while wanted:
        index = where[wanted.pop()]
        if index not in kept:
            kept.add(index)
            wanted += [name for name in below[index].needs() if name in where]
    return [below[index] for index in sorted(kept)]


def _joined(texts: list[str]) -> str:
    return "".join(text if text.endswith("\n") else text + "\n" for text in texts[:-1]) + texts[-1]
