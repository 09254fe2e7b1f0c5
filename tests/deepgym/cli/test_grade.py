from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepgym.models import BatchResult, EvalResult, RunResult

Put = Callable[[str, str], str]
FENCED = "Here:\n```python\nright\n```\nDone."
SUITE = "".join(
    json.dumps(
        {
            "task_id": f"HumanEval/{number}",
            "prompt": f"def f{number}(x):\n",
            "canonical_solution": "    return x\n",
            "entry_point": f"f{number}",
            "test": "def check(candidate):\n    assert candidate(1) == 1\n",
        }
    )
    + "\n"
    for number in range(3)
)


def sent(stub: Any) -> list[str]:
    return [code.strip() for code in stub.made[-1].calls[-1].outputs]


# run


@pytest.mark.parametrize(
    ("code", "exit_code", "first_line"),
    [
        ("right", 0, "PASSED  score 1.00"),
        ("wrong", 1, "FAILED  score 0.00"),
        ("loop", 1, "FAILED  score 0.00  solution_timeout: ran past 1 s"),
        ("outage", 3, "ERROR (provider_error): HTTP 503"),
    ],
)
def test_run_says_the_verdict_and_exits_by_it(
    stub: Any, cli: Any, env: str, put: Put, code: str, exit_code: int, first_line: str
) -> None:
    ran = cli("run", env, put("a.py", code))
    assert (ran.code, ran.out.split("\n")[0]) == (exit_code, first_line)
    assert stub.made[0].closed


def test_run_names_the_cases_that_failed_up_to_a_bound(stub: Any, cli: Any, env: str, put: Put) -> None:
    ran = cli("run", env, put("a.py", "wrong"))
    assert "  case 0 wrong: got 3\n" in ran.out
    assert "  and 2 more cases\n" in ran.out
    assert "case 10" not in ran.out


def test_a_py_file_runs_as_it_is(stub: Any, cli: Any, env: str, put: Put) -> None:
    cli("run", env, put("a.py", FENCED))
    assert stub.made[0].calls[0].outputs == [FENCED]


@pytest.mark.parametrize("name", ["a.md", "a.txt", "A.MD"])
def test_the_code_is_taken_out_of_a_text_file(stub: Any, cli: Any, env: str, put: Put, name: str) -> None:
    assert cli("run", env, put(name, FENCED)).code == 0
    assert sent(stub) == ["right"]


def test_the_text_option_takes_the_code_out_of_any_file(stub: Any, cli: Any, env: str, put: Put) -> None:
    assert cli("run", env, "--text", put("a.py", FENCED)).code == 0
    assert sent(stub) == ["right"]


def test_standard_input_is_code_or_with_text_a_completion(stub: Any, cli: Any, env: str) -> None:
    cli("run", env, "-", stdin="right")
    assert sent(stub) == ["right"]
    cli("run", env, "--text", "-", stdin=FENCED)
    assert sent(stub) == ["right"]


def test_a_byte_order_mark_is_no_code(stub: Any, cli: Any, env: str, put: Put) -> None:
    cli("run", env, put("a.py", "\ufeffright"))
    assert stub.made[0].calls[0].outputs == ["right"]


@pytest.mark.parametrize("path", ["missing.py", "print(1)", ".", "a\0b"])
def test_what_is_no_file_is_an_error_and_never_code(stub: Any, cli: Any, env: str, path: str) -> None:
    ran = cli("run", env, path)
    assert ran.code == 2
    assert "can't read" in ran.err
    assert ran.out == ""
    assert stub.made == []


@pytest.mark.parametrize("args", [[], ["a.py", "--reference"], ["a.py", "--text", "b.md"]])
def test_run_wants_exactly_one_answer(stub: Any, cli: Any, env: str, args: list[str]) -> None:
    ran = cli("run", env, *args)
    assert ran.code == 2
    assert "give one of ANSWER" in ran.err


def test_run_without_a_reference_to_grade_is_a_usage_error(stub: Any, cli: Any, env: str) -> None:
    ran = cli("run", env, "--reference")
    assert ran.code == 2
    assert "say has no reference answer" in ran.err


def test_an_unknown_environment_exits_2_with_the_closest(stub: Any, cli: Any, put: Put) -> None:
    ran = cli("run", "coin_chnage", put("a.py", "right"))
    assert ran.code == 2
    assert "coin_change" in ran.err
    assert stub.made == []


def test_run_prints_the_result_as_json_that_loads_back(stub: Any, cli: Any, env: str, put: Put) -> None:
    ran = cli("run", env, put("a.py", "right"), "--json")
    assert ran.out.isascii()
    assert ran.out.count("\n") == 1
    result = RunResult.model_validate_json(ran.out)
    assert (result.passed, result.output, ran.code) == (True, "caf\u00e9 \u2713\n", 0)


def test_options_reach_the_client(stub: Any, cli: Any, env: str, put: Put) -> None:
    cli("run", env, put("a.py", "right"), "--mode", "docker", "--seed", "7")
    assert stub.made[0].mode == "docker"
    assert stub.made[0].calls[0].options == {"seed": 7}


def test_what_an_answer_printed_cannot_steer_the_terminal(stub: Any, cli: Any, env: str, put: Put) -> None:
    out = cli("run", env, put("a.py", "escape")).out
    assert "\\x1b[2Jcleared\\x07" in out
    assert "\\u202eevil" in out
    assert "\x1b" not in out


# batch


def test_batch_grades_files_and_rows_in_order(stub: Any, cli: Any, env: str, put: Put) -> None:
    rows = "\n".join(
        [
            json.dumps({"completion": FENCED}),
            "",
            json.dumps({"code": FENCED}),
            json.dumps({"completion": [{"role": "assistant", "content": "```\nwrong\n```"}]}),
        ]
    )
    ran = cli("batch", env, put("a.py", "right"), put("b.md", FENCED), put("c.jsonl", rows))
    assert stub.made[0].calls[0].outputs == ["right", "right\n", "right\n", FENCED, "wrong\n"]
    assert ran.code == 1
    assert "c.jsonl:3  PASSED" in ran.out


@pytest.mark.parametrize(
    ("codes", "exit_code", "line"),
    [
        (["right", "right"], 0, "Pass Rate: 100.00% (judged 100.00%, 0.00% no verdict)"),
        (["right", "wrong"], 1, "Pass Rate: 50.00% (judged 50.00%, 0.00% no verdict)"),
        (
            ["right", "outage", "wrong", "right"],
            3,
            "Pass Rate: 50.00% (judged 66.67%, 25.00% no verdict)",
        ),
    ],
)
def test_batch_prints_both_rates_and_exits_by_the_worst(
    stub: Any, cli: Any, env: str, put: Put, codes: list[str], exit_code: int, line: str
) -> None:
    ran = cli("batch", env, *(put(f"{i}.py", code) for i, code in enumerate(codes)))
    assert ran.code == exit_code
    assert line in ran.out.split("\n")


def test_a_run_without_a_verdict_shows_its_type_and_cause(stub: Any, cli: Any, env: str, put: Put) -> None:
    assert "ERROR (provider_error): HTTP 503" in cli("batch", env, put("a.py", "outage")).out


def test_off_a_terminal_progress_is_one_plain_line_on_stderr(stub: Any, cli: Any, env: str, put: Put) -> None:
    ran = cli("batch", env, put("a.py", "right"), put("b.py", "outage"))
    assert ran.err.count("\n") == 1
    assert "2 of 2 graded" in ran.err
    assert "1 passed, 1 no verdict" in ran.err


def test_batch_prints_json_that_loads_back(stub: Any, cli: Any, env: str, put: Put) -> None:
    ran = cli("batch", env, put("a.py", "right"), put("b.py", "outage"), "--json")
    batch = BatchResult.model_validate_json(ran.out)
    assert batch.rewards == [1.0, None]
    assert json.loads(ran.out)["no_verdict_count"] == 1


def test_a_rows_environment_comes_before_the_common_one(
    stub: Any, cli: Any, env: str, put: Put, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "environment.toml").write_text((Path(env) / "environment.toml").read_text())
    rows = put("a.jsonl", json.dumps({"code": "right", "env": str(other)}) + '\n{"code": "right"}')
    cli("batch", env, rows)
    assert [e.name for e in stub.made[0].calls[0].envs] == ["other", "say"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "a row is an object"),
        ("{}", "a row is an object"),
        ('{"code": "a", "completion": "b"}', "a row is an object"),
        ('{"code": 7}', "'code' must be text"),
        ('{"completion": 7}', "a completion is text or a list of messages"),
        ('{"completion": "a", "env": []}', "'env' must be the name"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(
    stub: Any, cli: Any, env: str, put: Put, row: str, message: str
) -> None:
    ran = cli("batch", env, put("a.jsonl", '{"code": "right"}\n' + row))
    assert ran.code == 2
    assert "a.jsonl:2: " in ran.err
    assert message in ran.err
    assert ran.out == ""


def test_no_answers_are_a_usage_error(stub: Any, cli: Any, env: str, put: Put) -> None:
    ran = cli("batch", env, put("a.jsonl", "\n"))
    assert ran.code == 2
    assert "no answers" in ran.err


def test_ctrl_c_prints_the_totals_so_far_and_exits_130(stub: Any, cli: Any, env: str, put: Put) -> None:
    stub.interrupt_after = 1
    ran = cli("batch", env, put("a.py", "right"), put("b.py", "right"))
    assert ran.code == 130
    assert "Pass Rate: 50.00% (judged 100.00%, 50.00% no verdict)" in ran.out
    assert "1 of 2 graded" in ran.err


def test_ctrl_c_with_json_still_prints_one_document(stub: Any, cli: Any, env: str, put: Put) -> None:
    stub.interrupt_after = 1
    ran = cli("batch", env, put("a.py", "right"), put("b.py", "right"), "--json")
    assert ran.code == 130
    assert BatchResult.model_validate_json(ran.out).rewards == [1.0, None]


def test_ctrl_c_before_anything_ran_exits_130(
    stub: Any, cli: Any, env: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stub, "run_batch", stop)
    assert cli("batch", env, put("a.py", "right")).code == 130


# eval


@pytest.mark.parametrize("spelled", ["HumanEval/{}", "tasks/{}", "TASKS/{}", "{}"])
def test_eval_matches_rows_to_tasks_by_name(stub: Any, cli: Any, put: Put, spelled: str) -> None:
    suite = put("tasks.jsonl", SUITE)
    rows = "\n".join(
        json.dumps({"task_id": spelled.format(number), "completion": str(number)}) for number in (2, 0, 1)
    )
    assert cli("eval", suite, put("out.jsonl", rows)).code == 0
    assert sent(stub) == ["0", "1", "2"]


def test_eval_matches_rows_by_number(stub: Any, cli: Any, put: Put) -> None:
    rows = "\n".join(json.dumps({"task_id": number, "completion": str(number)}) for number in (2, 0, 1))
    assert cli("eval", put("tasks.jsonl", SUITE), put("out.jsonl", rows)).code == 0
    assert sent(stub) == ["0", "1", "2"]


def test_eval_takes_rows_without_names_in_order(stub: Any, cli: Any, put: Put) -> None:
    suite = put("tasks.jsonl", SUITE)
    rows = "\n".join(json.dumps({"code": code}) for code in ("right", "wrong", "outage"))
    ran = cli("eval", suite, put("out.jsonl", rows), "--json")
    assert ran.code == 3
    evaluated = EvalResult.model_validate_json(ran.out)
    assert len(evaluated.env_names) == 3
    assert evaluated.rewards == [1.0, 0.0, None]


def test_eval_grades_the_references(stub: Any, cli: Any, put: Put) -> None:
    assert cli("eval", put("tasks.jsonl", SUITE), "--reference").code == 0
    assert all("return x" in code for code in sent(stub))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["HumanEval/0", "HumanEval/1"], "no answer to 1 of 3 tasks"),
        (["HumanEval/0", "HumanEval/0", "HumanEval/1"], "a second answer"),
        (["HumanEval/0", "HumanEval/1", "HumanEval/9"], "no task 'humaneval/9'"),
        ([None, None], "2 rows without 'env' for the 3 tasks"),
    ],
)
def test_eval_refuses_rows_that_do_not_fit_the_suite(
    stub: Any, cli: Any, put: Put, names: list[str | None], message: str
) -> None:
    rows = "\n".join(json.dumps({"env": name, "code": "right"}) for name in names)
    ran = cli("eval", put("tasks.jsonl", SUITE), put("out.jsonl", rows))
    assert ran.code == 2
    assert message in ran.err


def test_eval_wants_outputs_or_references(stub: Any, cli: Any, put: Put) -> None:
    assert cli("eval", put("tasks.jsonl", SUITE)).code == 2


def test_an_unknown_suite_exits_2_with_the_closest(stub: Any, cli: Any) -> None:
    ran = cli("eval", "humanevil", "--reference")
    assert ran.code == 2
    assert "humaneval" in ran.err


def test_eval_says_how_many_rows_of_a_suite_it_left_out(stub: Any, cli: Any, put: Put) -> None:
    skipped = {"task_id": 7, "prompt": "Greet.", "code": "print(1)", "test_list": ["assert 1 == 1"]}
    ran = cli("eval", put("tasks.jsonl", SUITE + json.dumps(skipped)), "--reference")
    assert ran.code == 0
    assert "1 rows of" in ran.err
