"""Naive harnesses, run in the box: each is a way of judging that is in use, and that some cheat beats."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path

from .box import Finished, run

__all__ = ["CASES", "ENTRY", "NAMES", "WRONG", "honest", "reward", "shape"]

NAIVE = Path(__file__).parent / "naive"
#: Every harness; ``plain`` is only what the masking ones run.
NAMES = tuple(sorted(path.stem for path in NAIVE.glob("*.py") if path.stem != "plain"))
ENTRY = "weigh"
CASES = ((3, 716), (10, 807), (12, 851), (25, 1332))
_RIGHT = {
    "function": f"def {ENTRY}(n): return n * n + 707",
    "program": "n = int(input())\nprint(n * n + 707)",
    "sorting": f"def {ENTRY}(values): return sorted(values)",
}
WRONG = {
    "function": (f"def {ENTRY}(n): return n * n - 707", f"def {ENTRY}(n): return 0"),
    "program": ("n = int(input())\nprint(n * n - 707)", ""),
    "sorting": (f"def {ENTRY}(values): return values[::-1] + [0]", f"def {ENTRY}(values): return []"),
}


@cache
def _reader(name: str) -> tuple[str, Callable[[Finished], float | None]]:
    spec = importlib.util.spec_from_file_location(f"naive_{name}", NAIVE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SHAPE, module.reward


def shape(name: str) -> str:
    """What the harness judges: ``function``, ``program``, ``sorting`` (a function of a list) or ``any``."""
    return _reader(name)[0]


def honest(kind: str) -> str:
    """The right answer of this shape."""
    return _RIGHT[kind]


def reward(name: str, kind: str, *answers: str) -> float | None:
    """What the harness gives for the last of ``answers``; ``None`` where it drops the sample."""
    task = f"ENTRY = {ENTRY!r}\nSHAPE = {kind!r}\nCASES = {CASES!r}\n"
    files = {"task.py": task, "harness.py": (NAIVE / f"{name}.py").read_text(encoding="utf-8")}
    files["plain.py"] = (NAIVE / "plain.py").read_text(encoding="utf-8")
    files["answer.py"] = answers[-1]
    files.update({f"answer{number}.py": answer for number, answer in enumerate(answers)})
    return _reader(name)[1](run(files, "harness.py"))
