"""MBPP-style rows: a task, a solution, and assertions that call it.

Both published layouts are read: ``text``, ``code``, ``test_list``, ``test_setup_code``,
``challenge_test_list``, and ``prompt``, ``code``, ``test_list``, ``test_imports``. The assertions run in the
verifier's sandbox; the functions that they call are proxies for the answer's.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any

from deepgym.environments import fields
from deepgym.environments.environment import Environment, Program
from deepgym.exceptions import InvalidEnvironmentError

__all__ = ["NotAFunction", "environment"]

_VERIFY = """

_TESTS = {tests!r}


def verify(solution):
    import random as _random

    import deepgym_verify as _host

    _random.seed(_host.seed)
    for _name in {names!r}:
        globals()[_name] = solution.function(_name)
    _cases = []
    for _index, _test in enumerate(_TESTS):
        try:
            exec(compile(_test, "test_%d" % _index, "exec"), globals())
        except _host.SolutionDied:
            raise
        except Exception as _problem:
            _cases.append({{"name": "test_%d" % _index, "passed": False, "message": type(_problem).__name__}})
        else:
            _cases.append({{"name": "test_%d" % _index, "passed": True}})
    _passed = all(_case["passed"] for _case in _cases)
    return {{"score": 1.0 if _passed else 0.0, "passed": _passed, "cases": _cases}}
"""


class NotAFunction(Exception):
    """The row's tests need more of the answer than functions of plain values, such as a class of its own."""


def environment(row: dict[str, Any], suite: str, where: str) -> Environment:
    """The environment of one MBPP-style row. It passes if every assertion holds, else it scores 0.

    The task's text is followed by the first assertion, since it alone tells the function's name.

    Raises:
        NotAFunction: the tests can't run against a function in another process.
        InvalidEnvironmentError: a field is missing or of the wrong type, or the code isn't Python.
    """
    number = fields.task_number(row, where)
    task = fields.text(row, where, "text", "prompt").strip()
    code = fields.text(row, where, "code").replace("\r\n", "\n")
    tests = fields.strings(row, where, "test_list")
    if not tests or not task:
        raise InvalidEnvironmentError(f"{where}: the task's text or test_list is empty; fill both")
    tests = tests + fields.strings(row, where, "challenge_test_list")
    setup = [
        fields.text(row, where, "test_setup_code", default=""),
        *fields.strings(row, where, "test_imports"),
    ]
    preamble = "\n".join(part.replace("\r\n", "\n") for part in setup if part.strip())
    names = _called(code, tests, preamble, where)
    return Environment(
        name=f"{suite}/{number}",
        task=f"{task}\n\nYour code should pass tests such as:\n\n{tests[0]}\n",
        entry_point=names[0],
        reference=code,
        verify=Program(source=preamble + _VERIFY.format(tests=tests, names=names)),
        tags=("mbpp", "python"),
    )


def _called(code: str, tests: list[str], preamble: str, where: str) -> list[str]:
    """The answer's functions that the tests use, the one called first in front."""
    defined = fields.tree(code, where, "code").body
    functions = {node.name for node in defined if isinstance(node, ast.FunctionDef)}
    classes = {node.name for node in defined if isinstance(node, ast.ClassDef)}
    setup = fields.tree(preamble, where, "test_setup_code")
    given = _bound(setup) | set(dir(builtins))
    used: list[str] = []
    for test in tests:
        for node in ast.walk(fields.tree(test, where, "test_list")):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in used:
                used.append(node.id)
    own = [name for name in used if name in functions]
    if any(name in classes for name in used if name not in given):
        raise NotAFunction(
            f"its tests use the answer's class {next(name for name in used if name in classes)!r}"
        )
    if not own:
        raise NotAFunction("its tests call no function that code defines")
    makes = [node.name for node in setup.body if isinstance(node, ast.ClassDef)]
    if makes:
        raise NotAFunction(
            f"its tests pass objects of the class {makes[0]!r}, which can't cross into a sandbox"
        )
    return own


def _bound(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
