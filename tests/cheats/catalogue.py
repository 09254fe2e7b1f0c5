"""The cheats: one file each under ``answers/<group>/``, read as data.

A file's docstring is its claim, in one sentence. Comment lines after it say the rest:

    # shape: function          the code defines ENTRY, which becomes the environment's function
    # shape: program           the code reads stdin and prints
    # pays on: a, b            naive harnesses that give it a full reward
    # masks on: a              naive harnesses that drop its sample, so that its 0 is never learned
    # slow                     it sleeps or loops: it gets fewer environments, with short limits
    # generated                the file is executed when it is read, and its ANSWER is the answer

A line ``# second run`` parts a cheat of two runs: the first leaves something, the second looks for it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cheat", "cheats", "read"]

ANSWERS = Path(__file__).parent / "answers"
_FIELD = re.compile(r"# (shape|pays on|masks on): (.+)")
_ENTRY = re.compile(r"\bENTRY\b")
_SECOND = "\n# second run\n"


@dataclass(frozen=True)
class Cheat:
    """One cheat, as its file tells it."""

    name: str
    claim: str
    shape: str
    pays_on: tuple[str, ...]
    masks_on: tuple[str, ...]
    slow: bool
    parts: tuple[str, ...]
    """Its answers in the order of their runs; the last one is the cheat itself."""

    def answers(self, entry: str) -> tuple[str, ...]:
        """Its answers for an environment whose function is called ``entry``."""
        return tuple(_ENTRY.sub(entry, part) for part in self.parts)

    @property
    def naive(self) -> tuple[tuple[str, bool], ...]:
        """Pairs of a naive harness and whether the cheat pays there (it masks otherwise)."""
        pays, masks = ((name, True) for name in self.pays_on), ((name, False) for name in self.masks_on)
        return (*pays, *masks)


def read(path: Path) -> Cheat:
    """The cheat in one file.

    Raises:
        ValueError: no claim of one sentence, no known shape, or no naive harness that it works on.
    """
    source = path.read_text(encoding="utf-8")
    claim = ast.get_docstring(ast.parse(source)) or ""
    comments = [line.strip() for line in source.splitlines() if line.startswith("# ")]
    found = {match[1]: match[2] for line in comments if (match := _FIELD.fullmatch(line))}
    name = f"{path.parent.name}/{path.stem}"
    if not claim.endswith(".") or "\n" in claim:
        raise ValueError(f"{name}: the docstring must be one sentence on one line, got {claim!r}")
    if found.get("shape") not in ("function", "program"):
        raise ValueError(f"{name}: '# shape: function' or '# shape: program' is missing")
    if "pays on" not in found and "masks on" not in found:
        raise ValueError(f"{name}: '# pays on:' or '# masks on:' is missing")
    return Cheat(
        name=name,
        claim=claim,
        shape=found["shape"],
        pays_on=_names(found.get("pays on", "")),
        masks_on=_names(found.get("masks on", "")),
        slow="# slow" in comments,
        parts=(_generated(source),) if "# generated" in comments else tuple(source.split(_SECOND)),
    )


def cheats() -> list[Cheat]:
    """All cheats, by name."""
    return [read(path) for path in sorted(ANSWERS.glob("*/*.py"))]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _generated(source: str) -> str:
    names: dict[str, str] = {}
    exec(source, names)
    return names["ANSWER"]
