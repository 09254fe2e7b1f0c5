"""lm-eval's own ``humaneval`` and ours on the same generations: where they differ, and why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from deepgym_lmeval.names import task_name

from .own_humaneval import FORMS, OWN, TASK

pytestmark = pytest.mark.local_sandbox

#: Both run the same function.
BOTH_PASS = {"canonical", "then the next problem", "then a print"}
BOTH_FAIL = {"subtly wrong", "looping", "empty", "cut", "exits"}
#: lm-eval runs all that was said up to its stops ("\nclass", "\ndef", "\n#", "\nif", "\nprint"), prompt first.
OURS_ALONE_PASSES = {
    "then a failing test": "a test of the model's own runs in lm-eval's; here it isn't the function's",
    "then prose": "prose is a syntax error there; here it is dropped",
    "then a closing fence": "so is the end of a fence",
    "a helper below": "its stop cuts the helper off; here what the function uses is kept",
    "whole": "its stop cuts the function off, which begins a line",
    "whole, in a fence": "the fence is a syntax error there, and the stop cuts its code off; here it is opened",
    "stripped": "a first line that lost its indentation is a syntax error there",
}
#: lm-eval compares in the answer's own process.
OWN_ALONE_PASSES = {"equal to all": "an object that says it equals whatever it is compared with"}


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Of each document: the form of what was said, and the two tasks' marks."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "task").mkdir()
    env = {**os.environ, "HF_ALLOW_CODE_EVAL": "1", "HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("own_humaneval.py")), str(folder / "task")],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])
    return found


def of(marks: dict[str, dict[str, Any]], form: str) -> Counter[tuple[float, float]]:
    """How many documents got which marks: lm-eval's, ours."""
    return Counter((mark[OWN], mark[TASK]) for mark in marks.values() if mark["form"] == form)


def test_both_mark_the_same_164_documents(marks: dict[str, dict[str, Any]]) -> None:
    assert list(marks) == [f"humaneval/{number}" for number in range(164)]
    assert all(mark["verdict"] == 1.0 for mark in marks.values())
    assert task_name("humaneval") == TASK


def test_every_form_is_explained() -> None:
    explained = [*BOTH_PASS, *BOTH_FAIL, *OURS_ALONE_PASSES, *OWN_ALONE_PASSES]
    assert sorted(explained) == sorted(FORMS)


@pytest.mark.parametrize("form", FORMS)
def test_the_marks_differ_as_explained_and_only_so(marks: dict[str, dict[str, Any]], form: str) -> None:
    own, ours = form in BOTH_PASS or form in OWN_ALONE_PASSES, form in BOTH_PASS or form in OURS_ALONE_PASSES
    found = of(marks, form)
    assert set(found) == {(float(own), float(ours))}
    assert found.total() == 1 if form == "looping" else found.total() >= 10


def test_a_function_that_both_can_read_passes_in_both_or_fails_in_both(
    marks: dict[str, dict[str, Any]],
) -> None:
    read = [mark for mark in marks.values() if mark["form"] in BOTH_PASS | BOTH_FAIL]
    assert len(read) == 77
    assert [mark[OWN] for mark in read] == [mark[TASK] for mark in read]
    assert sum(mark[TASK] for mark in read) == 33
