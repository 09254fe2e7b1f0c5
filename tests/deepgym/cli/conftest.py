"""A client that judges by what the code says, so that the command line is tested without a sandbox."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from deepgym.cli import main
from deepgym.environments import Suite
from deepgym.exceptions import Interrupted
from deepgym.models import BatchResult, CaseResult, EvalResult, RunResult


def judged(code: str, env_name: str) -> RunResult:
    said = code.strip()
    if said == "outage":
        return RunResult(score=0.0, error_type="provider_error", error="HTTP 503", env_name=env_name)
    if said == "loop":
        return RunResult(score=0.0, error_type="solution_timeout", error="ran past 1 s", env_name=env_name)
    if said == "escape":
        return RunResult(score=0.0, output="\x1b[2Jcleared\x07", stderr="\u202eevil", env_name=env_name)
    if said == "wrong":
        cases = [
            CaseResult(name=str(i), passed=False, score=0.0, outcome="wrong", message="got 3")
            for i in range(12)
        ]
        return RunResult(score=0.0, cases=tuple(cases), env_name=env_name)
    return RunResult(score=1.0, passed=True, output="caf\u00e9 \u2713\n", env_name=env_name)


class StubClient:
    made: ClassVar[list[StubClient]] = []
    interrupt_after: ClassVar[int | None] = None

    def __init__(self, mode: str = "local") -> None:
        self.mode = mode
        self.closed = False
        self.calls: list[SimpleNamespace] = []
        type(self).made.append(self)

    def __enter__(self) -> StubClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def run_batch(
        self, env: Any, outputs: Sequence[str], *, observers: Sequence[Any] = (), **options: Any
    ) -> BatchResult:
        envs = list(env) if isinstance(env, (list, tuple)) else [env] * len(outputs)
        self.calls.append(SimpleNamespace(envs=envs, outputs=list(outputs), options=options))
        results: list[RunResult] = []
        for index, (environment, code) in enumerate(zip(envs, outputs, strict=True)):
            if index == type(self).interrupt_after:
                rest = [RunResult(score=0.0, error_type="cancelled")] * (len(outputs) - index)
                raise Interrupted("stopped", BatchResult(results=(*results, *rest)))
            results.append(judged(code, environment.name))
            for observer in observers:
                observer.on_result(index, results[-1])
        return BatchResult(results=tuple(results))

    def eval(self, suite: Suite, outputs: Sequence[str], **options: Any) -> EvalResult:
        def named(batch: BatchResult | None) -> EvalResult:
            assert batch is not None
            names = tuple(env.name for env in suite)
            return EvalResult(results=batch.results, env_names=names, suite=suite.name)

        try:
            return named(self.run_batch(list(suite), outputs, **options))
        except Interrupted as stop:
            raise Interrupted("stopped", named(stop.batch)) from None


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> type[StubClient]:
    monkeypatch.setattr(StubClient, "made", [])
    monkeypatch.setattr(StubClient, "interrupt_after", None)
    monkeypatch.setitem(sys.modules, "deepgym.client", SimpleNamespace(DeepGym=StubClient))  # type: ignore[arg-type]
    return StubClient


@dataclass
class Ran:
    code: int
    out: str
    err: str


Cli = Callable[..., Ran]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    def call(*argv: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as exit_info:
            main(argv)
        out, err = capsys.readouterr()
        code = exit_info.value.code
        return Ran(int(code or 0), out, err)

    return call


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, str], str]:
    def write(name: str, content: str) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode())
        return str(path)

    return write


ENVIRONMENT = """
task = "Say right."
difficulty = "easy"
tags = ["words"]
[verify]
kind = "cases"
function = "f"
cases = [{args = [1], expected = 2}]
"""


@pytest.fixture
def env(tmp_path: Path) -> str:
    folder = tmp_path / "say"
    folder.mkdir()
    (folder / "environment.toml").write_text(ENVIRONMENT + "", encoding="utf-8")
    return str(folder)
