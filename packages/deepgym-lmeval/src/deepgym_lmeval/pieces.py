"""What a model wrote, in pieces: each begins with a line of code at the margin.

A body that is continued is the first piece; what comes below it (helpers, further problems, prints, prose)
is in pieces of its own, told apart by their first line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from deepgym.environments.completion import STRING, Line, read_lines

from .bindings import assigned, bound, imported, used

__all__ = ["Piece", "bare_text", "first_fence", "looks_like_code", "read", "without_prose"]

_NAME = r"[^\W\d]\w*"
_DEFINES = re.compile(
    rf"^[ \t\f]*(?:(?:async[ \t]+)?def[ \t]+(?={_NAME}[ \t]*[(\[])"
    rf"|class[ \t]+(?={_NAME}[ \t]*[(:\[]))({_NAME})",
    re.MULTILINE,
)
_IMPORTS = re.compile(
    r"from[ \t]+[\w.]+[ \t]+import\b[ \t]*[(*\w\\]"
    r"|import[ \t]+[\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[ \t]*[\w.]+(?:[ \t]+as[ \t]+\w+)?)*"
    r"(?:[ \t]*;)?[ \t]*$"
)
#: Keywords that can't stand at the margin inside brackets: whatever was open is broken.
_RESTARTS = re.compile(r"(?:async[ \t]+def|def|class|import)[ \t]|@\w")
_CLAUSE = re.compile(r"(?:else|except|finally)\b[^\n]*:|(?:elif|except|case)[ \t(][^\n]*:")
_BLOCK = re.compile(r"(?:if|elif|else|for|while|try|except|with|async|match)\b")
_CODE = re.compile(
    r"(?:return|if|elif|else|for|while|with|try|except|finally|raise|yield|assert|pass|break|continue|def|class"
    r"|import|from|async|await|global|nonlocal|del|lambda|not|match|None|True|False)\b"
    r"""|[@"'(\[{]"""
    rf"|{_NAME}(?:\.{_NAME})*(?:[(\[]|[ \t]*(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)|[ \t]*:[^=\n]*=)"
    rf"|\*?{_NAME}(?:[ \t]*,[ \t]*\*?{_NAME})*[ \t]*=(?!=)"
)
_TESTS = re.compile(r"assert\b|print\b|if[ \t(]+__name__\b")
_RETURNS = re.compile(r"\b(?:return|yield)\b")
_FENCE = re.compile(r"[ ]{0,3}(?:`{3,}|~{3,})")
_IN_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass
class Piece:
    """Lines from one line of code at the margin (or the text's first line) to the next."""

    lines: list[Line] = field(default_factory=list)
    bare_lines: list[str] = field(default_factory=list)
    statements: list[Line] = field(default_factory=list)
    """Those lines on which a statement begins, at any indentation."""
    bare_statements: list[str] = field(default_factory=list)
    kind: str = ""
    """``body`` (it begins indented), ``definition``, ``import``, ``assignment``, ``return``, ``test`` (what
    only tries or prints), ``statement``, or ``prose``. A decorator above nothing stays a ``decorator``."""
    block: bool = False
    """Whether it begins with a statement that a clause such as ``else`` may follow."""
    broken: bool = False
    """Whether the text ends before the piece does."""

    @property
    def text(self) -> str:
        return "".join(line.text for line in self.lines)

    @property
    def bare(self) -> str:
        return "".join(self.bare_lines)

    def defines(self) -> tuple[str, ...]:
        """Names that it defines at the margin. A star is what a star import brings."""
        if self.kind == "definition":
            return tuple(_DEFINES.findall(self.bare)[:1])
        if self.kind == "import":
            return imported(self.bare)
        return assigned(self.bare.strip()) if self.kind == "assignment" else ()

    def returns(self) -> bool:
        """Whether it is or has a ``return`` that isn't a function's of its own."""
        return self.kind == "return" or (self.kind == "statement" and _RETURNS.search(self.bare) is not None)

    def needs(self) -> set[str]:
        """Names that it uses and doesn't bind itself."""
        return used(self.bare) - bound(self.bare, "".join(self.bare_statements))


def looks_like_code(line: str) -> bool:
    """Whether a line could begin a statement that does something. Prose seldom does."""
    return _CODE.match(line.lstrip()) is not None


def without_prose(lines: list[Line]) -> list[Line]:
    """The lines without the prose at the margin before the first code; none if all of it is prose."""
    start = 0
    for index, line in enumerate(lines):
        if line.code and (_column(line) or looks_like_code(line.text)):
            return lines[start:]
        if line.code:
            start = index + 1
    return []


def first_fence(lines: list[Line]) -> int | None:
    """Index of the first line that is a code fence outside a string."""
    for index, line in enumerate(lines):
        if line.code and _FENCE.match(line.text):
            return index
    return None


def read(text: str) -> list[Piece]:
    """The pieces of ``text``, which begins with code; joined they are ``text`` again."""
    bare, ends_in_string = bare_text(text)
    pieces = [Piece()]
    depth, continued, begun = 0, False, False
    for line, plain in zip(read_lines(text), re.split(r"(?<=\n)", bare), strict=True):
        statement = line.code and not depth and not continued
        if line.code and not _column(line) and begun and _begins(line, plain, statement, pieces[-1]):
            pieces.append(Piece())
            depth, statement = 0, True
        piece = pieces[-1]
        piece.lines.append(line)
        piece.bare_lines.append(plain)
        if statement:
            begun = True
            piece.statements.append(line)
            piece.bare_statements.append(plain)
            if piece.kind in ("", "decorator"):
                _name(piece, line, plain)
        depth = max(0, depth + sum(map(plain.count, "([{")) - sum(map(plain.count, ")]}")))
        continued = plain.rstrip("\r\n").endswith("\\")
    pieces[-1].broken = ends_in_string or depth > 0 or pieces[-1].bare.rstrip().endswith(":")
    return pieces


def _begins(line: Line, plain: str, statement: bool, before: Piece) -> bool:
    """Whether a line at the margin begins a new piece."""
    if before.kind == "decorator":
        return False
    if not statement and before.kind != "prose":
        return _RESTARTS.match(plain) is not None
    return not (before.block and _CLAUSE.match(plain))


def _name(piece: Piece, line: Line, plain: str) -> None:
    """Say what the piece is, from its first line of code or the one below its decorators."""
    plain = plain.strip(" \t\f")
    piece.kind = "body" if _column(line) and not piece.kind else _kind(plain)
    piece.block = _BLOCK.match(plain) is not None


def _kind(plain: str) -> str:
    if plain.startswith("@"):
        return "decorator"
    if _DEFINES.match(plain):
        return "definition"
    if _IMPORTS.match(plain.rstrip()):
        return "import"
    if re.match(r"return\b", plain):
        return "return"
    if assigned(plain):
        return "assignment"
    if _TESTS.match(plain):
        return "test"
    return "statement" if looks_like_code(plain) else "prose"


def _column(line: Line) -> str:
    """The indentation that counts: a form feed begins it anew."""
    return line.indent.rpartition("\f")[2]


def bare_text(text: str) -> tuple[str, bool]:
    """``text`` with its strings emptied and its comments gone, line for line; whether it ends in a string.

    What an f-string has in braces stays, as names.
    """
    open_at_end = False

    def emptied(match: re.Match[str]) -> str:
        nonlocal open_at_end
        found = match[0]
        if found.startswith("#"):
            return ""
        quote = found[:3] if found[:3] in ("'''", '"""') else ""
        closed = len(found) >= 6 and found.endswith(quote)
        open_at_end = bool(quote) and not closed and match.end() == len(text)
        lines = "\n" * found.count("\n")
        if "f" in text[max(0, match.start() - 2) : match.start()].lower() and "{" in found:
            return '"" ' + " ".join(sorted(used(" ".join(_IN_BRACES.findall(found))))) + lines
        return '""' + lines

    return STRING.sub(emptied, text), open_at_end
