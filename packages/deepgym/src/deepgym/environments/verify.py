"""How an answer is checked: declared cases, which need no program, or a verifier program."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from deepgym.environments.explain import explained
from deepgym.environments.plain import Text, check_paths, check_value, packed, parsed, unpacked
from deepgym.exceptions import VerifierError

__all__ = ["Case", "Cases", "Program"]

MAX_CASES = 5000
_Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class Frozen(BaseModel):
    """Base of the environment's models: read-only, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Case(Frozen):
    """One declared case. Which fields it uses depends on ``Cases.function``.

    A function: ``args``, ``kwargs`` and ``expected``, the value that comes back. A class: ``calls``, the
    constructor's arguments first (``("LRU", 2), ("put", 1, 1), ("get", 1)``), and ``expected``, a list with
    one value for each call (the constructor's is ``None``). A program: ``stdin`` and ``stdout``.

    Values are plain Python; in TOML and JSON, tuples, sets, bytes and the like stand under a tag. They
    are taken as they are: don't change them after the case was made.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = Field(default_factory=dict)
    expected: Any = None
    stdin: Text | None = None
    stdout: Text | None = None
    calls: tuple[tuple[Any, ...], ...] | None = None
    weight: float = Field(default=1.0, gt=0, le=1e6, strict=True)
    """Share of the score, relative to the other cases' weights."""
    name: str = Field(default="", max_length=100)

    @field_validator("args", "kwargs", "expected", "calls", mode="before")
    @classmethod
    def _plain(cls, value: Any, info: ValidationInfo) -> Any:
        if info.mode == "json" or (info.context or {}).get("tagged"):
            value = unpacked(value)
        if info.field_name == "calls" and value is not None:
            value = _check_calls(value)
        check_value(value, where=info.field_name or "value")
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Case:
        shapes = {
            "calls": self.calls is not None,
            "args and kwargs": bool(self.args or self.kwargs),
            "stdin and stdout": self.stdin is not None or self.stdout is not None,
        }
        used = [name for name, present in shapes.items() if present]
        if len(used) > 1:
            raise ValueError(f"a case uses either {' or '.join(used)}; keep one")
        if self.stdin is not None and self.stdout is None:
            raise ValueError("stdin without stdout: set stdout to what the program must print")
        if self.stdout is not None and self.expected is not None:
            raise ValueError("a case with stdout compares what is printed; drop expected")
        if self.calls is not None and not (
            type(self.expected) is list and len(self.expected) == len(self.calls)
        ):
            raise ValueError(
                f"expected must be a list of {len(self.calls)} values, one for each of calls (None for the "
                f"constructor), got {self.expected!r:.80}"
            )
        return self

    @field_serializer("kwargs", "expected", when_used="json")
    def _tagged(self, value: Any) -> Any:
        return packed(value)

    @field_serializer("args", when_used="json")
    def _tagged_args(self, value: tuple[Any, ...]) -> list[Any]:
        return [packed(item) for item in value]

    @field_serializer("calls", when_used="json")
    def _tagged_calls(self, value: tuple[tuple[Any, ...], ...] | None) -> list[list[Any]] | None:
        return None if value is None else [[packed(item) for item in call] for call in value]


def _check_calls(value: Any) -> Any:
    calls = [tuple(call) if type(call) in (list, tuple) else (None,) for call in value]
    if not calls or any(not call or type(call[0]) is not str or not call[0].isidentifier() for call in calls):
        raise ValueError(
            f"calls must be a non-empty list of (name, *args), the class first, got {value!r:.80}; "
            'for example [["LRU", 2], ["put", 1, 1], ["get", 1]]'
        )
    return tuple(calls)


class Cases(Frozen):
    """Declared cases: calls with the values they must return, or inputs with what must be printed.

    The judge's own process compares, so expected values never enter the answer's sandbox. The score is
    the weight of the passed cases over the weight of all; the run passes if every case did.
    """

    kind: Literal["cases"] = "cases"
    function: _Identifier | None = None
    """Function, or class with ``calls``, that the answer defines; ``None`` for stdin and stdout."""
    cases: tuple[Case, ...] = Field(default=(), max_length=MAX_CASES)
    draw: Text | None = None
    """Trusted Python source of ``draw(rng) -> list[dict]``, fields of ``Case`` to add after ``cases``."""
    compare: Literal["exact", "float", "unordered", "set"] = "exact"
    rel_tol: float = Field(default=1e-9, ge=0, le=1, strict=True)
    abs_tol: float = Field(default=1e-9, ge=0, le=1e300, strict=True)
    allow_nonfinite: bool = Field(default=False, strict=True)

    @field_validator("draw")
    @classmethod
    def _draws(cls, source: str | None) -> str | None:
        return source if source is None else _check_source(source, "draw", "draw(rng)")

    @model_validator(mode="after")
    def _fit(self) -> Cases:
        if not self.cases and self.draw is None:
            raise ValueError("no cases: give cases, draw, or both")
        for index, case in enumerate(self.cases):
            self._check(case, f"cases[{index}]")
        return self

    def _check(self, case: Case, where: str) -> None:
        if self.function is None and case.stdout is None:
            raise ValueError(f"{where} has no stdout; set function to call one, or stdout to run a program")
        if self.function is not None and case.stdout is not None:
            raise ValueError(f"{where} has stdout, but function is {self.function!r}; drop one of the two")
        if case.calls is not None and case.calls[0][0] != self.function:
            raise ValueError(
                f"{where}.calls starts with {case.calls[0][0]!r}; the first call is {self.function!r}"
            )
        if not self.allow_nonfinite:
            for field in ("args", "kwargs", "expected", "calls"):
                check_value(getattr(case, field), nonfinite=False, where=f"{where}.{field}")

    def with_drawn(self, rows: Iterable[Any]) -> tuple[Case, ...]:
        """The fixed cases, then the drawn ``rows`` (dicts of ``Case`` fields with plain values).

        Raises:
            VerifierError: a row isn't a valid case of this environment, there are no cases at all, or
                more than 5000. The verifier failed; the answer has no part in it.
        """
        cases = list(self.cases)
        for index, row in enumerate(rows):
            if index >= MAX_CASES:
                raise VerifierError(f"draw returned more than {MAX_CASES} cases")
            cases.append(self._drawn(row, f"drawn[{index}]"))
        if not cases:
            raise VerifierError(
                "draw returned no cases; return at least one dict such as {'args': [1], 'expected': 2}"
            )
        return tuple(cases)

    def _drawn(self, row: Any, where: str) -> Case:
        try:
            case = Case.model_validate(row)
            self._check(case, where)
        except ValidationError as error:
            raise VerifierError(explained(error, where, Case)) from None
        except ValueError as error:
            raise VerifierError(str(error)) from None
        return case


class Program(Frozen):
    """A verifier program, run in a sandbox of its own beside the answer's.

    It defines ``verify(solution)`` or calls ``report(...)`` itself; see ``docs/verifiers.md``.
    """

    kind: Literal["program"] = "program"
    source: Annotated[Text, Field(min_length=1)]
    files: dict[str, Text] = Field(default_factory=dict)
    """Files for the verifier alone, by relative path; the answer never sees them."""
    seeded: bool = Field(default=False, strict=True)
    """Whether the program uses ``seed`` or ``rng``, so that another seed makes other tests."""

    @field_validator("source")
    @classmethod
    def _parses(cls, source: str) -> str:
        return _check_source(source, "source", None)

    @field_validator("files")
    @classmethod
    def _safe(cls, files: dict[str, str]) -> dict[str, str]:
        if any(path.split("/")[0] in ("deepgym_verify", "deepgym_verify.py") for path in files):
            raise ValueError("'deepgym_verify' names the verifier's helper module; rename the file")
        return check_paths(files)


def _check_source(source: str, field: str, defines: str | None) -> str:
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ValueError(
            f"{field} isn't valid Python: {error}" + (f" (line {line})" if line else "")
        ) from None
    if defines is not None:
        name = defines.split("(")[0]
        if not any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body):
            raise ValueError(f"{field} must define {defines} at its top level, got {source!r:.60}")
    return source
