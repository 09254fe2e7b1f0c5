"""From a completion to the code that runs: prepend what the task showed, as far as it is missing.

The answer is only *read*, line by line and in linear time: compiling text that a policy wrote can exhaust
the compiler's stack, and this happens in the trainer's process. The prefix is trusted and is parsed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache

from deepgym.environments.plain import parsed

__all__ = ["STRING", "Line", "complete", "defined_at", "first_line_stripped", "head", "read_lines", "shifted"]

#: A string, closed or not, or a comment.
STRING = re.compile(
    # Every branch can end at the end of the text, so that none ever backtracks.
    r"'''(?:[^\\']+|\\(?:.|\Z)|'(?!''))*(?:'''|\Z)"
    r'|"""(?:[^\\"]+|\\(?:.|\Z)|"(?!""))*(?:"""|\Z)'
    r"|'(?:[^\\'\n]+|\\.)*'?"
    r'|"(?:[^\\"\n]+|\\.)*"?'
    r"|#[^\n]*",
    re.DOTALL,
)
_FUTURE = re.compile(r"from[ \t]+__future__[ \t]+import\b")


@dataclass(frozen=True)
class _Prefix:
    head: str
    """What stands before the entry point: imports and helpers."""
    signature: str
    """The entry point's decorators and ``def`` line(s)."""
    body: str
    """What its body begins with, most often a docstring."""
    indent: str
    """Indentation of that body."""

    def opened(self, indent: str) -> str:
        """All of it, the body at another indentation."""
        if indent == self.indent or not self.signature:
            return self.head + self.signature + self.body
        return self.head + self.signature + shifted(read_lines(self.body), indent, len(self.indent))


@dataclass(frozen=True)
class Line:
    """One line of an answer, its newline included."""

    text: str
    indent: str
    code: bool
    """Whether code begins on it: not blank, not only a comment, not inside a string."""
    inside: bool
    """Whether it begins inside a string that an earlier line opened."""


def complete(answer: str, prefix: str, entry_point: str | None) -> str:
    """The code to run for ``answer``, a completion of ``prefix``.

    ``entry_point`` defined in the answer: only the part of the prefix before it is prepended. Otherwise
    the answer is a body: the prefix, then the body, indented if it isn't. Without an entry point
    the prefix is always prepended. A blank answer stays blank, so that it can't earn what a stub earns.
    """
    if not answer.strip():
        return ""
    if entry_point is None:
        return _ended(prefix) + answer
    parts = _split(prefix, entry_point)
    lines = read_lines(answer)
    margin = defined_at(lines, entry_point)
    if margin is not None:
        return _with_head(parts.head, shifted(lines, "", len(margin)))
    return _with_body(parts, lines)


def head(prefix: str, entry_point: str) -> str:
    """What stands in ``prefix`` before the entry point: imports and helpers. All of it if there is none."""
    return _split(prefix, entry_point).head


@lru_cache(maxsize=1024)
def _split(prefix: str, entry_point: str) -> _Prefix:
    text = _ended(prefix)
    rows = text.splitlines(keepends=True)
    for source in (text, text + "    pass\n"):
        try:
            tree = parsed(source)
        except SyntaxError:
            continue
        for node in reversed(tree.body):
            if (
                isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                and node.name == entry_point
            ):
                first = min([node.lineno] + [item.lineno for item in node.decorator_list])
                body = node.body[0]
                return _Prefix(
                    head="".join(rows[: first - 1]),
                    signature="".join(rows[first - 1 : body.lineno - 1]),
                    body="".join(rows[body.lineno - 1 :]),
                    indent=" " * body.col_offset if body.lineno > node.lineno else "    ",
                )
        break
    return _Prefix(head=text, signature="", body="", indent="    ")


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def read_lines(text: str) -> list[Line]:
    """The lines of ``text``, in linear time; joined they are ``text`` again."""
    rows = re.split(r"(?<=\n)", text)
    starts, at = [], 0
    for row in rows:
        starts.append(at)
        at += len(row)
    inside = _inside_strings(text, starts)
    out = []
    for index, row in enumerate(rows):
        bare = row.lstrip(" \t\f")
        code = not inside[index] and bool(bare.strip()) and not bare.startswith("#")
        out.append(Line(row, row[: len(row) - len(bare)], code, inside[index]))
    return out


def _inside_strings(text: str, starts: list[int]) -> list[bool]:
    inside = [False] * len(starts)
    row = 0
    for match in STRING.finditer(text):
        while row < len(starts) and starts[row] <= match.start():
            row += 1
        while row < len(starts) and starts[row] < match.end():
            inside[row] = True
            row += 1
    return inside


def defined_at(lines: list[Line], entry_point: str) -> str | None:
    """Indentation of the answer's outermost code if ``entry_point`` is defined there."""
    code = [line for line in lines if line.code]
    if not code:
        return None
    margin = min((line.indent for line in code), key=len)
    name = re.escape(entry_point)
    defines = re.compile(
        rf"(?:async[ \t]+def|def|class)[ \t]+{name}\b|{name}[ \t]*(?::[^=\n]*)?=(?!=)"
        rf"|(?:from|import)[ \t].*\b{name}[ \t]*(?:$|,|#)"
    )
    for line in code:
        if line.indent == margin and defines.match(line.text.strip()):
            return margin if code[0].indent == margin else None
    return None


def shifted(lines: list[Line], add: str, drop: int = 0) -> str:
    """The lines with ``drop`` columns removed and ``add`` put before code; text in strings is kept."""
    if not add and not drop:
        return "".join(line.text for line in lines)
    out = []
    for line in lines:
        if line.inside or not line.text.strip():
            out.append(line.text)
        else:
            out.append(add + line.text[min(drop, len(line.indent)) :])
    return "".join(out)


def _with_head(head: str, code: str) -> str:
    """``head`` before ``code``, but after the ``__future__`` imports, which must come first."""
    if not head.strip():
        return code
    lines = read_lines(code)
    last = -1
    for index, line in enumerate(lines):
        if index > last and line.code and not line.indent and _FUTURE.match(line.text):
            last = index
            while "(" in line.text and ")" not in lines[last].text and last + 1 < len(lines):
                last += 1
    before = "".join(line.text for line in lines[: last + 1])
    after = "".join(line.text for line in lines[last + 1 :])
    return (_ended(before) if before else "") + _ended(head) + after


def _with_body(parts: _Prefix, lines: list[Line]) -> str:
    code = [line for line in lines if line.code]
    if not code or code[0].indent or not parts.signature:
        indent = code[0].indent if code else parts.indent
        return parts.opened(indent) + "".join(line.text for line in lines)
    rest = code[1:]
    if first_line_stripped(code[0], rest):
        indent = min((line.indent for line in rest), key=len)
        start = lines.index(code[0])
        return parts.opened(indent) + indent + "".join(line.text for line in lines[start:])
    return parts.opened(parts.indent) + shifted(lines, parts.indent)


def first_line_stripped(first: Line, rest: list[Line]) -> bool:
    """Whether only the first line of an indented body lost its indentation (``text.strip()`` does that)."""
    if not rest or any(not line.indent for line in rest):
        return False
    least = min(len(line.indent) for line in rest)
    opens_block = first.text.split("#")[0].rstrip().endswith(":")
    return not opens_block or len(rest[0].indent) > least
