"""Which names a piece of code uses, and which it binds itself; read with regexes, in linear time.

The text is a policy's, so it is never compiled. What is read is ``bare`` code, whose strings are emptied.
A guess that is wrong keeps a definition too many or too few; it never fails.
"""

from __future__ import annotations

import re

__all__ = ["assigned", "bound", "imported", "used"]

_NAME = r"[^\W\d]\w*"
_USE = re.compile(rf"(?<![\w.])({_NAME})(?!\w|[ \t]*=(?!=))")
_TARGETS = rf"(?:[(\[][ \t]*)?(\*?{_NAME}(?:[ \t]*,[ \t]*\*?{_NAME})*)(?:[ \t]*,)?(?:[ \t]*[)\]])?[ \t]*"
_ASSIGN = re.compile(rf"{_TARGETS}(?::[^=\n]*)?=(?!=)")
_AUGMENT = r"(?:[-+*/%&|^@]|//|\*\*|<<|>>)"
_TARGET = re.compile(rf"^[ \t\f]*{_TARGETS}(?::[^=\n]*)?{_AUGMENT}?=(?!=)", re.MULTILINE)
_BINDS = (
    # Bounded, so that a line of many "for" without "in" stays linear.
    re.compile(r"\bfor\b([\w \t,()*\[\]]{1,200}?)\bin\b"),
    re.compile(rf"\bas[ \t]+\(?({_NAME})"),
    re.compile(rf"\b({_NAME})[ \t]*:="),
    re.compile(rf"\b(?:def|class)[ \t]+({_NAME})"),
)
_GLOBAL = re.compile(r"\bglobal[ \t]+([\w \t,]+)")
_DEF = re.compile(rf"\bdef[ \t]+{_NAME}[ \t]*(?:\[[^\]\n]{{0,200}}\])?\(")
_LAMBDA = re.compile(r"\blambda\b([^:\n]{0,200}):")
_IMPORT = re.compile(r"^[ \t\f]*(?:from[ \t]+[\w.]+[ \t]+)?import\b[ \t]*(\([^)]*\)?|[^\n;]*)", re.MULTILINE)
_NESTED = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}")
#: Parameters of one function are looked for in so many characters.
_PARAMETERS = 400


def used(bare: str) -> set[str]:
    """Names that the code reads, keywords among them. Attributes and keyword arguments' names aren't."""
    return set(_USE.findall(bare))


def bound(bare: str, statements: str | None = None) -> set[str]:
    """Names that the code, as a function's body, has as its own: assigned, imported, parameters.

    ``statements`` are its lines on which a statement begins, if a line that only looks like an
    assignment (``key=key`` in a call) isn't to count.
    """
    names = set(imported(bare))
    found = _TARGET.findall(bare if statements is None else statements)
    for pattern in _BINDS:
        found += pattern.findall(bare)
    for targets in found:
        names.update(re.findall(_NAME, targets))
    for match in _DEF.finditer(bare):
        names.update(_parameters(bare[match.end() : match.end() + _PARAMETERS]))
    for parameters in _LAMBDA.findall(bare):
        names.update(_parameters(parameters))
    for targets in _GLOBAL.findall(bare):
        names.difference_update(re.findall(_NAME, targets))
    return names


def imported(bare: str) -> tuple[str, ...]:
    """Names that the code's import statements bind. A star stands for itself."""
    names = []
    for found in _IMPORT.findall(bare):
        for part in found.strip("() \t").split(","):
            words = part.split()
            if words:
                names.append(words[-1] if "as" in words[:-1] else words[0].split(".")[0])
    return tuple(names)


def assigned(bare: str) -> tuple[str, ...]:
    """Names that a simple assignment at the start of ``bare`` binds; none if it begins with no such."""
    match = _ASSIGN.match(bare)
    return tuple(re.findall(_NAME, match[1])) if match else ()


def _parameters(text: str) -> list[str]:
    """The names in a parameter list, from after its parenthesis."""
    for _ in range(3):
        text = _NESTED.sub("", text)
    matches = (re.match(rf"\s*\*{{0,2}}({_NAME})", part) for part in text.split(")")[0].split(","))
    return [match[1] for match in matches if match]
