from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deepgym import DeepGym, RunResult
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program


@pytest.fixture(scope="session", autouse=True)
def own_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Slots that no other process of this user takes part in: its batch mustn't hold these tests up."""
    folder = str(tmp_path_factory.mktemp("slots"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepgym.providers.local.slots._directory", lambda: folder)
        yield folder


@pytest.fixture(scope="session")
def dg(local_sandbox: None, own_slots: str) -> Iterator[DeepGym]:
    """One client with two slots, kept warm for the session."""
    with DeepGym(slots=2) as client:
        yield client


@pytest.fixture
def judged(dg: DeepGym) -> Callable[..., RunResult]:
    """``judged(env, answer)``: the result as a batch gives it, whatever happened."""

    def run(env: Environment, answer: str, **options: Any) -> RunResult:
        (result,) = dg.run_batch(env, [answer], **options).results
        return result

    return run


def environment(verify: Cases | Program, limits: dict[str, Any], fields: dict[str, Any]) -> Environment:
    limits.setdefault("wall", 20.0)
    if "inodes" in limits:
        limits["files"] = limits.pop("inodes")
    return Environment(name="test", task="t", verify=verify, limits=EnvironmentLimits(**limits), **fields)


_FIELDS = ("language", "interpreter", "files", "loopback", "seed", "prefix", "entry_point")


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = {name: options.pop(name) for name in _FIELDS if name in options}
    return options, fields


@pytest.fixture
def called(judged: Callable[..., RunResult]) -> Callable[..., RunResult]:
    """``called(answer, *(argument, expected))``: ``f`` of the answer is called with one argument a case.

    Without pairs: 1 -> 2, 2 -> 3, 3 -> 4. Further options are limits and fields of the environment.
    """

    def run(answer: str, *pairs: tuple[Any, Any], compare: str = "exact", **options: Any) -> RunResult:
        limits, fields = _split(options)
        nonfinite = limits.pop("allow_nonfinite", False)
        cases = tuple(
            Case(args=(given,), expected=wanted) for given, wanted in pairs or ((1, 2), (2, 3), (3, 4))
        )
        verify = Cases.model_validate(
            {"function": "f", "cases": cases, "compare": compare, "allow_nonfinite": nonfinite}
        )
        return judged(environment(verify, limits, fields), textwrap.dedent(answer))

    return run


@pytest.fixture
def printed(judged: Callable[..., RunResult]) -> Callable[..., RunResult]:
    """``printed(answer, *(stdin, stdout))``: the answer is run as a program, once a case."""

    def run(answer: str, *pairs: tuple[str, str], compare: str = "exact", **options: Any) -> RunResult:
        limits, fields = _split(options)
        cases = tuple(
            Case(stdin=given, stdout=wanted) for given, wanted in pairs or (("1\n", "2\n"), ("2\n", "3\n"))
        )
        verify = Cases.model_validate({"cases": cases, "compare": compare})
        return judged(environment(verify, limits, fields), textwrap.dedent(answer))

    return run


@pytest.fixture
def verified(judged: Callable[..., RunResult]) -> Callable[..., RunResult]:
    """``verified(program, answer)``: a verifier program looks at the answer, ``f(x) = x + 1`` by default."""

    def run(program: str, answer: str = "def f(x): return x + 1", **options: Any) -> RunResult:
        limits, fields = _split(options)
        own = limits.pop("verifier_files", {})
        return judged(
            environment(Program(source=textwrap.dedent(program), files=own), limits, fields),
            textwrap.dedent(answer),
        )

    return run


@pytest.fixture
def inside(called: Callable[..., RunResult]) -> Callable[..., Any]:
    """``inside(body)``: what the body of a function returns (as JSON) when it is an answer's own code."""

    def look(body: str, **options: Any) -> Any:
        body = textwrap.indent(textwrap.dedent(body), "    ")
        answer = f"def look():\n{body}\ndef f(x):\n    import json\n    print('\\n' + json.dumps(look()))\n"
        result = called(answer, (1, None), **options)
        assert result.passed, (result.error, result.stderr, [case.message for case in result.cases])
        return json.loads(result.output.splitlines()[-1])

    return look


@pytest.fixture
def inside_verifier(verified: Callable[..., RunResult]) -> Callable[..., Any]:
    """``inside_verifier(body)``: what a function with this body returns in a verifier program's sandbox.

    The body may use ``solution``.
    """

    def look(body: str, answer: str = "def f(x): return x + 1", **options: Any) -> Any:
        body = textwrap.indent(textwrap.dedent(body), "    ")
        program = (
            f"def look(solution):\n{body}\n"
            "def verify(solution):\n    solution.source()\n"
            "    return {'passed': True, 'details': {'found': look(solution)}}\n"
        )
        result = verified(program, answer, **options)
        assert result.passed, (result.error_type, result.error, result.stderr)
        return result.details["found"]

    return look
