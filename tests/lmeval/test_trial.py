"""What has to be found out before a model is asked anything: a broken judge, and code that nothing isolates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.exceptions import SandboxError
from deepgym.providers.local import LocalProvider
from deepgym.testing import Behaviour, FakeProvider, Fault, FaultyProvider
from deepgym_lmeval import make_lm_eval_task

from .answers import Answers, canonical
from .harness import arguments, command, evaluate
from .server import loopback

pytestmark = pytest.mark.local_sandbox

BROKEN = Fault("provider", Phase.QUEUED)


def broken() -> FaultyProvider:
    """A sandbox that can't be opened."""
    return FaultyProvider(FakeProvider(), BROKEN)


@pytest.mark.parametrize("chat", [False, True])
def test_a_broken_sandbox_is_found_before_a_model_is_asked(known: Any, chat: bool) -> None:
    task = make_lm_eval_task("humaneval", dg=DeepGym(provider=broken()))
    with loopback(Answers(canonical, known)) as server:
        with pytest.raises(SandboxError, match=r"provider_error.*deepgym doctor local"):
            evaluate(server, task, chat=chat)
        assert server.asked == []


def test_a_judge_that_passes_everything_is_found_before_a_model_is_asked(known: Any) -> None:
    generous = FakeProvider(otherwise=Behaviour.reports(1.0))
    strict = FakeProvider(otherwise=Behaviour.reports(0.0))
    for provider in (generous, strict):
        task = make_lm_eval_task("humaneval", dg=DeepGym(provider=provider))
        with loopback(Answers(canonical, known)) as server:
            with pytest.raises(SandboxError, match="deepgym doctor local"):
                evaluate(server, task)
            assert server.asked == []


def test_unsafe_code_must_be_confirmed_before_a_model_is_asked(known: Any) -> None:
    dg = DeepGym(provider=LocalProvider(isolation="unsafe"))
    task = make_lm_eval_task("two_sum", dg=dg)
    with dg, loopback(Answers(canonical, known)) as server:
        with pytest.raises(ValueError, match="confirm_run_unsafe_code"):
            evaluate(server, task)
        assert server.asked == []
        run = evaluate(server, task, confirm_run_unsafe_code=True)
    assert run.values("deepgym_two_sum")["deepgym_score"] == 1.0
    ((graded,),) = run.samples("deepgym_two_sum")[0]["filtered_resps"]
    assert graded.isolation == "unsafe"


def test_an_isolated_sandbox_needs_no_confirmation(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym_two_sum")
    ((graded,),) = run.samples("deepgym_two_sum")[0]["filtered_resps"]
    assert graded.isolation not in ("unsafe", None)


WITH = """
import sys
from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.providers.local import LocalProvider
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym_lmeval import task
from deepgym_lmeval.grading import Grader
grader = Grader(DeepGym(provider={provider}))
task.shared_grader = lambda: grader
if __name__ == "__main__":
    from deepgym.cli import main
    main(["lm-eval", *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ('FaultyProvider(FakeProvider(), Fault("provider", Phase.QUEUED))', "deepgym doctor local"),
        ('LocalProvider(isolation="unsafe")', "confirm_run_unsafe_code"),
    ],
    ids=["broken", "unsafe"],
)
def test_the_command_fails_before_a_model_is_asked(
    known: Any, provider: str, said: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(WITH.format(provider=provider))
    with loopback(Answers(canonical, known)) as server:
        run = command(*arguments(server, "deepgym_humaneval"), program=[str(program)])
        assert server.asked == []
    assert run.returncode != 0
    assert said in run.stderr.splitlines()[-1] + run.stderr
    assert "Traceback" not in run.stderr or "Error" in run.stderr
