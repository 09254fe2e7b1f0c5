"""The command line on the real client and the local sandbox."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from deepgym.cli.group import COMPLETIONS, OUTAGE
from deepgym.models import BatchResult, RunResult

pytestmark = pytest.mark.local_sandbox


@pytest.mark.parametrize(("code", "exit_code"), [("raise SystemExit(0)", 1), (None, 0)])
def test_an_answer_is_graded(cli: Any, put: Any, code: str | None, exit_code: int) -> None:
    answer = ["--reference"] if code is None else [put("a.py", code)]
    ran = cli("run", "two_sum", *answer, "--json")
    assert ran.code == exit_code
    assert RunResult.model_validate_json(ran.out).has_verdict


def test_the_references_of_a_suite_pass(cli: Any) -> None:
    ran = cli("eval", "easy", "--reference")
    assert ran.code == 0, ran.out
    assert "Pass Rate: 100.00% (judged 100.00%, 0.00% no verdict)" in ran.out


def test_the_demo_shows_the_outage_as_none_and_moves_nobody_by_it(cli: Any) -> None:
    ran = cli("demo", "--json")
    assert ran.code == 0, ran.err
    shown = json.loads(ran.out)
    assert shown["references"]["pass_rate"] == 1.0
    group = BatchResult.model_validate(shown["group"])
    rewards = dict(zip(COMPLETIONS, group.rewards, strict=True))
    advantages = dict(zip(COMPLETIONS, shown["advantages"], strict=True))
    assert [name for name, reward in rewards.items() if reward is None] == [OUTAGE]
    assert [name for name, advantage in advantages.items() if advantage is None] == [OUTAGE]
    assert rewards["right"] == rewards["right, after reasoning"] == 1.0
    assert 0.0 < (rewards["greedy, so partly right"] or 0.0) < 1.0
    faults = {name: result.error_type for name, result in zip(COMPLETIONS, group.results, strict=True)}
    assert faults["loops"] == "solution_timeout"
    assert faults["ends its own process"] == "solution_error"
    assert abs(sum(advantage for advantage in advantages.values() if advantage is not None)) < 1e-6


def test_the_demo_prints_a_table_for_people(cli: Any) -> None:
    ran = cli("demo")
    assert ran.code == 0
    assert "ERROR (provider_error)" in ran.out
    assert all(name in ran.out for name in COMPLETIONS)


TOLD = """
import sys
from deepgym.cli import main
from deepgym.cli.progress import Tally

count = Tally.on_result

def on_result(self, index, result):
    count(self, index, result)
    print("graded one", file=sys.stderr, flush=True)

Tally.on_result = on_result
main()
"""


def test_ctrl_c_ends_a_batch_with_the_totals_so_far(put: Any) -> None:
    looping = put("loop.py", "while True:\n    pass\n")
    process = subprocess.Popen(
        [sys.executable, "-c", TOLD, "batch", "two_sum", put("a.py", "x = 1"), looping, "-j", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "graded one\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Pass Rate: 0.00% (judged 0.00%, 50.00% no verdict)" in out
    assert "ERROR (cancelled)" in out
    assert "Traceback" not in err


def test_the_walls_can_be_chosen_by_name(cli: Any, put: Any) -> None:
    ran = cli("run", "coin_change", "--reference", "--isolation", "namespaces", "--json")
    assert RunResult.model_validate_json(ran.out).isolation == "namespaces"
    own = put("answer.py", "def coin_change(coins, amount): return -1")
    ran = cli("run", "coin_change", own, "--isolation", "unsafe", "--json")
    result = RunResult.model_validate_json(ran.out)
    assert (result.isolation, result.enforced["files"]) == ("unsafe", "none")


def test_walls_that_there_arent_are_a_usage_error(cli: Any) -> None:
    ran = cli("run", "coin_change", "--reference", "--isolation", "walls")
    assert ran.code == 2
    assert "auto, namespaces, landlock, unsafe" in ran.err
    ran = cli("run", "coin_change", "--reference", "--isolation", "auto", "--mode", "docker")
    assert ran.code == 2
    assert "--mode is docker" in ran.err
