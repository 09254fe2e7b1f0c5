"""Verifier programs on the real sandbox: what they return, how they fail, and whose fault that is."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from deepgym import DeepGym, RunResult
from deepgym.environments import Environment, EnvironmentLimits, Program
from deepgym.exceptions import SandboxError, TimeoutError, VerifierError

pytestmark = pytest.mark.local_sandbox

Run = Callable[..., RunResult]
CALL = "from deepgym_verify import *\nok = solution.function('f')(1) == 2\n"


def returning(*lines: str) -> str:
    """A program whose ``verify`` calls the solution and goes on with these lines."""
    return "def verify(solution):\n    solution.function('f')(1)\n" + textwrap.indent(
        "\n".join(lines), "    "
    )


def is_fault(result: RunResult, error_type: str) -> bool:
    return (result.error_type, result.score, result.passed, result.reward) == (error_type, 0.0, False, 0.0)


def is_unjudged(result: RunResult, error_type: str) -> bool:
    return (result.error_type, result.score, result.passed, result.reward, result.has_verdict) == (
        error_type,
        0.0,
        False,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("value", "score", "passed"),
    [
        ("None", 1.0, True),
        ("True", 1.0, True),
        ("False", 0.0, False),
        ("0.5", 0.5, False),
        ("0", 0.0, False),
        ("1", 1.0, True),
        ("1.0", 1.0, True),
        ("{'score': 0.25}", 0.25, False),
        ("{'score': 1.0}", 1.0, True),
        ("{'passed': True}", 1.0, True),
        ("{'passed': False}", 0.0, False),
        ("{'score': 0.5, 'passed': True}", 0.5, True),
        ("{'score': 0.5, 'passed': False}", 0.5, False),
    ],
)
def test_what_verify_returns_is_the_score(verified: Run, value: str, score: float, passed: bool) -> None:
    result = verified(returning(f"return {value}"))
    assert (result.score, result.passed, result.error_type) == (score, passed, None), result.error
    assert result.exit_code == (0 if passed else 1)


def test_a_report_carries_cases_components_metrics_and_details(verified: Run) -> None:
    result = verified(
        returning(
            "return {'score': 0.5, 'cases': [{'name': 'a', 'passed': True},",
            "        {'name': 'b', 'passed': False, 'message': 'no', 'score': 0.25}],",
            "        'reward_components': {'style': 0.5}, 'metrics': {'n': 2}, 'details': {'x': [1, None]}}",
        )
    )
    assert result.score == 0.5
    assert [(case.name, case.passed) for case in result.cases] == [("a", True), ("b", False)]
    assert result.cases[1].message == "no"
    assert result.reward_components == {"style": 0.5}
    assert result.metrics == {"n": 2}
    assert result.details == {"x": [1, None]}


@pytest.mark.parametrize(
    "value",
    ["'x'", "[1]", "float('nan')", "float('inf')", "2.0", "-1", "-0.001", "{'score': True}", "{'score': 'high'}",
     "{'nonsense': 1}", "{'score': None, 'passed': 'yes'}", "object()", "1j", "10 ** 400"],
)  # fmt: skip
def test_a_result_that_cant_be_reported_is_a_judged_zero_once_the_answer_was_in_play(
    verified: Run, value: str
) -> None:
    assert is_fault(verified(returning(f"return {value}")), "solution_error")


@pytest.mark.parametrize("value", ["2.0", "float('nan')", "{'score': True}", "-1"])
def test_a_bad_score_before_the_answer_was_in_play_has_no_verdict(verified: Run, value: str) -> None:
    result = verified(f"def verify(solution):\n    return {value}")
    assert not result.has_verdict
    assert result.error_type in ("invalid_score", "verifier_error")


def test_an_assertion_that_fails_is_a_verdict(verified: Run) -> None:
    result = verified(returning("assert solution.function('f')(1) == 3, 'off by one'"))
    assert (result.score, result.passed, result.error_type, result.has_verdict) == (0.0, False, None, True)
    assert "off by one" in str(result.details)


def test_an_exception_of_the_solution_that_verify_lets_through_is_a_verdict(verified: Run) -> None:
    result = verified(returning(), "def f(x): raise ValueError('mine')")
    assert (result.score, result.passed, result.error_type) == (0.0, False, None)
    assert "mine" in str(result.details)


def test_an_exception_of_the_verifiers_own_is_a_crash(verified: Run) -> None:
    result = verified(returning("raise ValueError('its own')"))
    assert is_fault(result, "solution_error")
    assert "its own" in result.stderr


@pytest.mark.parametrize(
    "error_type", ["solution_error", "solution_timeout", "invalid_patch", "policy_sandbox_failure"]
)
def test_a_model_fault_that_the_verifier_names_is_a_judged_zero(verified: Run, error_type: str) -> None:
    result = verified(returning(f"return {{'score': 0.9, 'error_type': {error_type!r}}}"))
    assert is_fault(result, error_type)


@pytest.mark.parametrize(
    ("error_type", "kept"),
    [("runtime_error", "runtime_error"), ("timeout", "timeout"), ("nonsense", "other")],
)
def test_another_error_type_that_the_verifier_names_has_no_verdict(
    verified: Run, error_type: str, kept: str
) -> None:
    assert is_unjudged(verified(returning(f"return {{'score': 0.9, 'error_type': {error_type!r}}}")), kept)


# Reports that break the protocol, after the answer came into play.

BROKEN = {
    "two reports": "report(1.0, True)\nreport(1.0, True)",
    "no report": "",
    "passed but exit 1": "import sys\nreport(1.0, True)\nsys.exit(1)",
    "failed but exit 0": "import sys\nreport(0.5, False)\nsys.exit(0)",
    "report and crash": "report(1.0, True)\n1 / 0",
    "report and status 3": "import sys\nreport(1.0, True)\nsys.exit(3)",
    "report and a signal": "import os\nreport(1.0, True)\nos.kill(os.getpid(), 9)",
    "report and abort": "import os\nreport(1.0, True)\nos.abort()",
    "too long": "report(1.0, True, details={'a': 'x' * 2_000_000})",
    "far too long": "report(1.0, True, details={'a': 'x' * 30_000_000})",
    "too deep": "d = 1\nfor _ in range(100): d = [d]\nreport(1.0, True, details={'a': d})",
    "text on the channel": "import os\nos.write(3, b'hello\\n')\nreport(1.0, True)",
    "NaN on the channel": 'import os\nos.write(3, b\'{"score":NaN,"passed":true}\\n\')',
    "duplicate score": 'import os\nos.write(3, b\'{"score":0.1,"score":1.0,"passed":true}\\n\')',
    "a member too many": 'import os\nos.write(3, b\'{"score":1.0,"passed":true,"bonus":1}\\n\')',
    "a printed word": "print('hello')",
    "two printed lines": "print('{\"score\":1.0,\"passed\":true}')\nprint('x')",
    "printed NaN": 'print(\'{"score":NaN,"passed":true}\')',
    "printed twice": 'print(\'{"score":1.0,"passed":true}\')\nprint(\'{"score":1.0,"passed":true}\')',
}


@pytest.mark.parametrize("program", BROKEN.values(), ids=BROKEN)
def test_a_report_that_breaks_the_protocol_is_a_judged_zero_after_play(verified: Run, program: str) -> None:
    assert is_fault(verified(CALL + program), "solution_error")


@pytest.mark.parametrize("program", BROKEN.values(), ids=BROKEN)
def test_a_report_that_breaks_the_protocol_has_no_verdict_before_play(verified: Run, program: str) -> None:
    result = verified("from deepgym_verify import *\n" + program)
    assert not result.has_verdict
    assert result.error_type in ("verifier_error", "invalid_score")


@pytest.mark.parametrize(
    "program",
    [
        "report(1.0, True)",
        'print(\'{"score":1.0,"passed":true}\')',
        "def verify(solution): return True",
        "def verify(solution): return {'score': 1.0}",
        "import time\ntime.sleep(0.2)\nreport(1.0, True)",
        "import os\nos.close(4)\nreport(1.0, True)",
        "import os\nos.listdir('/answer')\nos.stat('/answer/solution')\nreport(1.0, True)",
    ],
)
def test_a_program_that_never_touches_the_answer_judged_nothing(
    dg: DeepGym, verified: Run, program: str
) -> None:
    assert is_unjudged(verified("from deepgym_verify import *\n" + program), "verifier_error")


def test_a_model_fault_named_before_play_isnt_one(verified: Run) -> None:
    result = verified("def verify(solution): return {'error_type': 'solution_error', 'score': 0.0}")
    assert not result.has_verdict


# Exit 2: no verdict at any phase.


@pytest.mark.parametrize(
    "before", ["", "solution.source()\n", "solution.function('f')(1)\n", "report(1.0, True)\n"]
)
@pytest.mark.parametrize("leave", ["raise SystemExit(2)", "import os\nos._exit(2)"])
def test_a_verifier_that_exits_two_gives_no_verdict_at_any_phase(
    dg: DeepGym, verified: Run, before: str, leave: str
) -> None:
    program = "from deepgym_verify import *\n" + before + leave
    result = verified(program)
    assert is_unjudged(result, "verifier_error")
    assert result.exit_code == 2


def test_run_returns_the_result_of_a_verifier_that_exits_two(dg: DeepGym) -> None:
    env = Environment(name="t", task="t", verify=Program(source="raise SystemExit(2)"))
    assert is_unjudged(dg.run(env, "x = 1"), "verifier_error")


@pytest.mark.parametrize("status", [2, 124, 137, 143])
@pytest.mark.parametrize(
    "die",
    ["import os\ndef f(x): os._exit({})", "def f(x): raise SystemExit({})", "import os\nos._exit({})"],
    ids=["os._exit", "SystemExit", "at import"],
)
def test_the_solutions_exit_status_never_becomes_the_verifiers(verified: Run, status: int, die: str) -> None:
    result = verified(returning("return True"), die.format(status))
    assert is_fault(result, "solution_error")
    assert result.exit_code != 2


def test_a_solution_cant_make_the_verifier_exit_two_through_its_exceptions(verified: Run) -> None:
    for name in ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"):
        result = verified(
            returning("return True"), f"class E({name}): pass\nE.__name__ = '{name}'\ndef f(x): raise E(2)"
        )
        assert result.has_verdict
        assert result.score == 0.0


# A verifier that crashes or hangs.


CRASHES = {
    "exception": "1 / 0",
    "exit 3": "raise SystemExit(3)",
    "exit with text": "raise SystemExit('failed')",
    "os._exit(70)": "import os\nos._exit(70)",
    "SIGKILL": "import os\nos.kill(os.getpid(), 9)",
    "segfault": "import ctypes\nctypes.string_at(0)",
    "recursion": "def g(): g()\ng()",
    "memory": "held = []\nwhile True: held.append(bytearray(1 << 24))",
    "import": "import no_such_module",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
}


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES)
def test_a_verifier_that_crashes_before_play_gives_no_verdict(dg: DeepGym, verified: Run, crash: str) -> None:
    result = verified(crash)
    assert not result.has_verdict
    assert result.error_type in ("verifier_error", "sandbox_error")


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES)
def test_a_verifier_that_crashes_after_play_is_a_judged_zero(verified: Run, crash: str) -> None:
    assert is_fault(verified(CALL + crash), "solution_error")


def test_run_raises_for_a_verifier_that_crashes_before_play(dg: DeepGym) -> None:
    env = Environment(name="t", task="t", verify=Program(source="raise ValueError('broken test')"))
    with pytest.raises(VerifierError, match="broken test") as raised:
        dg.run(env, "x = 1")
    assert raised.value.result is not None
    assert is_unjudged(raised.value.result, "verifier_error")


def test_run_raises_for_a_verifier_that_never_touches_the_answer_or_says_nothing(dg: DeepGym) -> None:
    env = Environment(name="t", task="t", verify=Program(source="x = 1"))
    with pytest.raises(VerifierError):
        dg.run(env, "x = 1")


def test_run_returns_a_judged_zero_for_a_verifier_that_crashes_after_play(dg: DeepGym) -> None:
    env = Environment(name="t", task="t", verify=Program(source=CALL + "1 / 0"))
    assert is_fault(dg.run(env, "def f(x): return 2"), "solution_error")


def test_a_verifier_that_hangs_before_play_is_a_timeout_without_a_verdict(dg: DeepGym, verified: Run) -> None:
    assert is_unjudged(verified("while True: pass", wall=0.3), "timeout")
    env = Environment(
        name="t",
        task="t",
        verify=Program(source="import time\ntime.sleep(60)"),
        limits=EnvironmentLimits(wall=0.3),
    )
    with pytest.raises(TimeoutError):
        dg.run(env, "x = 1")


def test_a_verifier_that_hangs_after_play_is_a_solution_timeout(verified: Run) -> None:
    assert is_fault(verified(CALL + "while True: pass", wall=0.5), "solution_timeout")
    source = "from deepgym_verify import *\nsolution.source()\nwhile True: pass"
    assert is_fault(verified(source, wall=0.5), "solution_timeout")


def test_a_solution_that_hangs_is_a_solution_timeout(verified: Run) -> None:
    for answer in (
        "while True: pass",
        "def f(x):\n    while True: pass",
        "import os\nos.kill(os.getpid(), 19)",
    ):
        assert is_fault(verified(returning("return True"), answer, wall=0.5), "solution_timeout")


def test_the_wall_clock_of_a_run_starts_when_the_answer_comes_into_play(verified: Run) -> None:
    program = "import time\ntime.sleep(0.5)\n" + returning("return True")
    result = verified(program, wall=30.0)
    assert result.passed
    assert result.execution_time_ms < 29_000


# Reading the text.


def test_reading_the_text_brings_the_answer_into_play(verified: Run) -> None:
    assert (
        verified(
            "def verify(solution): return {'score': 0.25} if 'x + 1' in solution.source() else False"
        ).score
        == 0.25
    )
    assert is_fault(verified("def verify(solution):\n    solution.source()\n    1 / 0"), "solution_error")


def test_opening_the_answers_file_by_its_name_brings_it_into_play(verified: Run) -> None:
    for way in ("open('/answer/solution').read()", "import os\nopen(os.environ['DEEPGYM_SOLUTION']).read()"):
        assert is_fault(verified(f"{way}\n1 / 0"), "solution_error")


def test_a_text_that_was_read_is_the_very_text(verified: Run) -> None:
    answer = "é\ttext  \n\n# no code at all {"
    result = verified(
        "def verify(solution):\n    return {'passed': True, 'details': {'t': solution.source()}}", answer
    )
    assert result.passed
    assert result.details["t"] == answer


@pytest.mark.parametrize(
    "answer", ["", "def f(x:", "\0", "\ud800"], ids=["empty", "syntax", "NUL", "surrogate"]
)
def test_a_text_that_is_no_program_can_still_be_read(verified: Run, answer: str) -> None:
    result = verified(
        "def verify(solution):\n    return {'score': 0.5, 'details': {'n': len(solution.source())}}", answer
    )
    assert (result.score, result.error_type) == (0.5, None), result.error


@pytest.mark.parametrize(
    "answer", ["def f(x:", "\0", "1 / 0", "raise SystemExit(0)", "import os\nos._exit(0)"]
)
def test_a_text_that_cant_be_loaded_is_a_judged_zero_when_it_is_called(verified: Run, answer: str) -> None:
    result = verified(returning("return True"), answer)
    assert result.has_verdict
    assert (result.score, result.passed) == (0.0, False)


def test_a_missing_function_is_the_solutions_exception(verified: Run) -> None:
    result = verified(returning("return True"), "x = 1")
    assert (result.score, result.has_verdict, result.passed) == (0.0, True, False)


def test_no_length_of_an_answer_takes_its_verdict_away(verified: Run) -> None:
    answer = "#" + "x" * (40 << 20) + "\ndef f(x): return x"
    result = verified(returning("return solution.function('f')(1) == 2"), answer)
    assert result.has_verdict, result.error
    assert result.score == 0.0


# Exceptions that come back.


def _raised(verified: Run, answer: str) -> list[Any]:
    program = """
        import deepgym_verify as host
        def verify(solution):
            try:
                solution.function("f")(1)
            except BaseException as error:
                name = type(error).__name__
                known = [isinstance(error, kind) for kind in (host.SolutionError, host.SolutionDied, ValueError)]
                return {"passed": True, "details": {"found": [name, str(error), known]}}
    """
    return list(verified(program, answer).details["found"])


@pytest.mark.parametrize(
    "name", ["ValueError", "KeyError", "ZeroDivisionError", "RuntimeError", "StopIteration", "OSError"]
)
def test_a_builtin_exception_comes_back_as_itself(verified: Run, name: str) -> None:
    found = _raised(verified, f"def f(x): raise {name}('mine')")
    assert found[0] == name
    assert "mine" in found[1]


@pytest.mark.parametrize(
    "answer",
    [
        "class Mine(Exception): pass\ndef f(x): raise Mine('text')",
        "class Mine(ValueError): pass\ndef f(x): raise Mine('text')",
        "class Mine(BaseException): pass\ndef f(x): raise Mine('text')",
        "Mine = type('SystemExit', (Exception,), {})\ndef f(x): raise Mine('text')",
        "Mine = type('__import__', (Exception,), {})\ndef f(x): raise Mine('text')",
        "Mine = type('exit', (Exception,), {})\ndef f(x): raise Mine('text')",
    ],
)
def test_any_other_exception_comes_back_as_a_solution_error(verified: Run, answer: str) -> None:
    found = _raised(verified, answer)
    assert found[0] == "SolutionError"
    assert found[2] == [True, False, False]
    assert "text" in found[1]


def test_a_solution_that_died_is_an_exception_that_buys_it_nothing(verified: Run) -> None:
    program = """
        from deepgym_verify import SolutionDied
        def verify(solution):
            try:
                solution.function("f")(1)
            except SolutionDied:
                return True
    """
    assert is_fault(verified(program, "import os\ndef f(x): os._exit(0)"), "solution_error")


def test_a_solution_that_died_stays_dead(verified: Run) -> None:
    program = """
        from deepgym_verify import SolutionDied
        def verify(solution):
            died = 0
            for _ in range(3):
                try:
                    solution.function("f")(1)
                except SolutionDied:
                    died += 1
            return {"score": 1.0, "metrics": {"died": died}}
    """
    assert is_fault(verified(program, "import os\nos._exit(0)"), "solution_error")


# The solution's claims.


FORGED = {
    "a reply ahead": "b'{\"id\":1,\"v\":2}\\n'",
    "two replies ahead": "b'{\"id\":1,\"v\":2}\\n{\"id\":2,\"v\":2}\\n'",
    "another id": "b'{\"id\":7,\"v\":2}\\n'",
    "an id as text": "b'{\"id\":\"1\",\"v\":2}\\n'",
    "nonsense": "b'nonsense\\n'",
    "NaN": "b'{\"id\":1,\"v\":NaN}\\n'",
    "a tag for NaN": "b'{\"id\":1,\"v\":{\"!f\":\"nan\"}}\\n'",
    "an unknown tag": "b'{\"id\":1,\"v\":{\"!q\":1}}\\n'",
    "a short complex": "b'{\"id\":1,\"v\":{\"!c\":[\"1\"]}}\\n'",
    "an object as a complex": "b'{\"id\":1,\"v\":{\"!c\":{}}}\\n'",
    "an unhashable set": "b'{\"id\":1,\"v\":{\"!s\":[[1]]}}\\n'",
    "a list bomb": "b'{\"id\":1,\"v\":' + b'[' * 100000 + b'\\n'",
    "a deep list": "b'{\"id\":1,\"v\":' + b'[' * 900 + b']' * 900 + b'}\\n'",
    "deep tags": "b'{\"id\":1,\"v\":' + b'{\"!t\":[' * 400 + b']}' * 400 + b'}\\n'",
    "a huge number": "b'{\"id\":1,\"v\":' + b'9' * 100000 + b'}\\n'",
    "a duplicate key": "b'{\"id\":1,\"v\":0,\"v\":2}\\n'",
    "an error without text": "b'{\"id\":1,\"e\":\"ValueError\"}\\n'",
    "an error of no text": "b'{\"id\":1,\"e\":1,\"m\":[]}\\n'",
    "an error like exit": "b'{\"id\":1,\"e\":\"SystemExit\",\"m\":\"2\"}\\n'",
    "an error like eval": "b'{\"id\":1,\"e\":\"eval\",\"m\":\"exit(2)\"}\\n'",
    "no newline": "b'{\"id\":1,\"v\":2}'",
    "an empty line": "b'\\n'",
}  # fmt: skip


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
def test_a_forged_reply_never_passes_and_never_takes_the_verdict_away(verified: Run, data: str) -> None:
    program = returning("return solution.function('f')(5) == 6")
    result = verified(program, f"import os\nos.write(4, {data})\nos._exit(0)\ndef f(x): return x + 1")
    assert result.has_verdict, (result.error_type, result.error)
    assert (result.score, result.passed) == (0.0, False)


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
def test_no_reply_makes_the_verifiers_own_code_fail(verified: Run, data: str) -> None:
    """What ``_ask`` raises is the solution's exception or ``SolutionDied``, never an error of the helper's own."""
    program = """
        import deepgym_verify as host
        def verify(solution):
            try:
                solution.function("f")(1)
            except host.SolutionDied:
                return {"score": 0.0, "details": {"how": "died"}}
            except Exception as error:
                return {"score": 0.0, "details": {"how": "raised", "ours": not hasattr(error, "from_solution")}}
            return {"score": 0.0, "details": {"how": "value"}}
    """
    result = verified(program, f"import os\nos.write(4, {data})\nos._exit(0)")
    assert result.details.get("ours") is not True, result.details
    assert "crashed" not in (result.error or "")


@pytest.mark.parametrize("fd", [3, 4])
def test_a_solution_that_floods_its_channels_is_a_judged_zero(verified: Run, fd: int) -> None:
    result = verified(
        returning("return True"), f"import os\nwhile True: os.write({fd}, b'x' * 65536)", wall=3.0
    )
    assert result.has_verdict
    assert result.score == 0.0


def test_a_solution_that_closes_its_link_is_a_judged_zero(verified: Run) -> None:
    assert is_fault(
        verified(returning("return True"), "import os\nos.close(4)\ndef f(x): return 2"), "solution_error"
    )


def test_a_solution_cant_report_for_its_verifier(verified: Run) -> None:
    for line in ('{"score":1.0,"passed":true}', '#{"fault":null,"ran_to_its_end":true}'):
        answer = f"import os\nos.write(3, b'{line}\\n')\nprint('{line}')\ndef f(x): return 0"
        result = verified(returning("return solution.function('f')(1) == 2"), answer)
        assert (result.score, result.passed, result.has_verdict) == (0.0, False, True)


def test_a_solution_reaches_nothing_of_its_verifier_but_the_link(verified: Run) -> None:
    answer = """
        import os, socket
        def f(x):
            link = socket.socket(fileno=os.dup(4))
            peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            out = [list(peer), sorted(os.listdir("/answer"))]
            try:
                os.kill(int.from_bytes(peer[:4], "little") or 99999, 9)
                out.append("killed")
            except OSError as error:
                out.append(type(error).__name__)
            return out
    """
    program = (
        "def verify(solution):\n    return {'passed': True, 'details': {'f': solution.function('f')(1)}}"
    )
    result = verified(program, answer)
    assert result.passed, (result.error, result.stderr)
    assert result.details["f"][1:] == [[], "ProcessLookupError"]


def test_descriptors_that_a_solution_sends_over_the_link_reach_nobody(verified: Run) -> None:
    answer = """
        import array, os, socket
        def f(x):
            link = socket.socket(fileno=os.dup(4))
            fds = array.array("i", [os.open("/dev/zero", os.O_RDONLY)])
            link.sendmsg([b" "], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            return x
    """
    program = """
        import os
        def verify(solution):
            before = os.listdir("/proc/self/fd")
            try:
                solution.function("f")(1)
            except Exception:
                pass
            return {"score": 0.5, "details": {"same": before == os.listdir("/proc/self/fd")}}
    """
    result = verified(program, answer)
    assert result.has_verdict
    assert result.error_type == "solution_error" or result.details["same"]


def test_output_of_the_solution_is_drained_while_the_verifier_runs(verified: Run) -> None:
    result = verified(
        returning("return True"),
        "import sys\ndef f(x):\n    print('y' * 300_000)\n    sys.stderr.write('z' * 300_000)\n    return 2",
    )
    assert result.passed, (result.error_type, result.error)
    assert result.truncated
    assert result.output.startswith("yyy")


def test_output_of_the_solution_without_end_is_a_judged_zero(verified: Run) -> None:
    result = verified(returning("return True"), "while True: print('x' * 65536)", wall=10.0)
    assert result.has_verdict
    assert result.score == 0.0


def test_the_processor_time_of_a_solution_is_bounded_here_too(verified: Run) -> None:
    result = verified(returning("return True"), "def f(x):\n    while True: pass", wall=25.0, cpu=1.0)
    assert is_fault(result, "solution_timeout")


def test_a_solution_that_outlives_the_verifier_is_ended(verified: Run) -> None:
    answer = """
        import os, threading, time
        def f(x):
            threading.Thread(target=time.sleep, args=(1000,)).start()
            if os.fork() == 0:
                time.sleep(1000)
            return x + 1
    """
    assert verified(returning("return True"), answer).passed


# Values, objects, programs, files.


@pytest.mark.parametrize(
    "value",
    ["(1, (2,))", "{1, 2}", "frozenset([3])", "b'\\x00a'", "{1: 2, (3, 4): [5]}", "{'a': (1,)}", "1 + 2j", "None", "True",
     "1.5", "-0.0", "10 ** 50", "'\\ud800'", "{'!t': [1]}", "[]", "set()", "{}", "''"],
)  # fmt: skip
def test_plain_values_cross_both_ways_with_their_exact_types(verified: Run, value: str) -> None:
    program = f"def verify(solution):\n    v = {value}\n    return repr(solution.function('f')(v, k=v)) == repr([v, v])"
    assert verified(program, "def f(v, k): return [v, k]").passed


def test_what_isnt_plain_doesnt_leave_the_solution(verified: Run) -> None:
    for value in ("object()", "lambda: 1", "type('L', (int,), {})(1)", "iter([1])", "range(3)"):
        result = verified(returning("return True"), f"def f(x): return {value}")
        assert (result.score, result.has_verdict, result.passed) == (0.0, True, False)


def test_nan_from_a_solution_is_refused(verified: Run) -> None:
    for value in ("float('nan')", "[1, float('inf')]", "{'a': -float('inf')}"):
        assert is_fault(verified(returning("return True"), f"def f(x): return {value}"), "solution_error")


def test_text_that_looks_like_the_tag_for_nan_is_only_text(verified: Run) -> None:
    answer = "def f(x): return ['\"!f\"', {'k': '!f'}]"
    result = verified(
        "def verify(solution): return solution.function('f')(1) == ['\"!f\"', {'k': '!f'}]", answer
    )
    assert result.passed, result.error


def test_an_object_lives_in_the_solutions_process(verified: Run) -> None:
    program = """
        def verify(solution):
            one, other = solution.construct("Counter", 5), solution.construct("Counter", (1, 2))
            one.call("add", 2)
            assert one.call("get") == 7
            assert other.call("get") == (1, 2)
            try:
                one.call("missing")
            except AttributeError:
                return True
    """
    answer = """
        class Counter:
            def __init__(self, start): self.value = start
            def add(self, n): self.value += n
            def get(self): return self.value
    """
    assert verified(program, answer).passed


def test_a_program_is_run_with_its_input_and_arguments(verified: Run) -> None:
    program = """
        def verify(solution):
            ran = solution.run("5\\n", args=("a", "b c"))
            assert ran.stdout == "6 ['a', 'b c']\\n", ran.stdout
            assert ran.stderr == "e\\n"
            assert ran.exit_code == 3
            assert not ran.timed_out and not ran.cut
            return solution.run("7\\n").stdout == "8 []\\n"
    """
    answer = "import sys\nprint(int(input()) + 1, sys.argv[1:])\nprint('e', file=sys.stderr)\nsys.exit(3)"
    result = verified(program, answer)
    assert result.passed, (result.error, result.details)


def test_a_program_that_doesnt_end_is_stopped_after_the_time_that_the_verifier_gives(verified: Run) -> None:
    program = """
        def verify(solution):
            ran = solution.run("", timeout=0.3)
            return ran.timed_out and ran.stdout == "before\\n"
    """
    assert verified(program, "print('before', flush=True)\nwhile True: pass").passed


def test_output_of_a_program_is_cut_at_the_limit(verified: Run) -> None:
    program = "def verify(solution):\n    ran = solution.run('', limit=100)\n    return ran.cut and ran.stdout == 'x' * 100"
    assert verified(program, "print('x' * 10_000)").passed


def test_a_program_that_dies_has_an_exit_code_and_the_verifier_goes_on(verified: Run) -> None:
    program = "def verify(solution):\n    return [solution.run('').exit_code for _ in range(2)] == [-9, -9]"
    assert verified(program, "import os\nos.kill(os.getpid(), 9)").passed


def test_a_program_and_its_functions_can_be_used_in_one_run(verified: Run) -> None:
    program = "def verify(solution):\n    return solution.run('').stdout == '3\\n' and solution.function('f')(1) == 2"
    assert verified(program, "def f(x): return x + 1\nif __name__ == '__main__':\n    print(f(2))").passed


def test_another_language_is_run_by_a_verifier_too(verified: Run) -> None:
    program = "def verify(solution):\n    return solution.run('5\\n').stdout == '6\\n'"
    assert verified(program, "read n\necho $((n + 1))", language="bash", interpreter=("bash",)).passed


def test_files_that_a_solution_wrote_are_read_safely(verified: Run) -> None:
    program = """
        def verify(solution):
            solution.function("f")()
            assert solution.read_file("a.txt") == b"hi\\xff"
            assert len(solution.read_file("big")) == 1 << 16
            assert len(solution.read_file("big", limit=100)) == 100
            assert solution.read_file("sub/b.txt") == b"below"
            for path in ("fifo", "link", "loop", "/dev/zero", "folder", "missing", "socket", "/dev/fd/0"):
                try:
                    solution.read_file(path)
                except OSError:
                    continue
                return {"passed": False, "details": {"path": path}}
            return True
    """
    answer = """
        import os
        def f():
            open("a.txt", "wb").write(b"hi\\xff")
            open("big", "wb").write(b"x" * (1 << 20))
            os.makedirs("sub"); os.makedirs("folder")
            open("sub/b.txt", "w").write("below")
            os.mkfifo("fifo")
            os.symlink("/box/a.txt", "link")
            os.symlink("loop", "loop")
    """
    result = verified(program, answer, wall=10.0)
    assert result.passed, (result.error_type, result.error, result.details)


LIES = ['"text"', "5", '{"!b":"zz"}', '{"!b":"' + "00" * 200 + '"}', "null", "[]", '{"out":"","err":""}']


@pytest.mark.parametrize("lie", LIES, ids=lambda text: text[:20])
@pytest.mark.parametrize(
    "ask", ["len(solution.read_file('x', limit=100)) >= 0", "solution.run('').exit_code == 0"]
)
def test_a_solution_that_lies_about_a_file_or_a_program_gains_nothing(
    verified: Run, lie: str, ask: str
) -> None:
    answer = f"""
        import os
        real = os.read
        def lie(fd, size):
            real(fd, size)
            os.write(4, b'{{"id":2,"v":{lie}}}\\n')
            os._exit(0)
        def f(x):
            os.read = lie
            return x
    """
    assert is_fault(verified(returning(f"return {ask}"), answer), "solution_error")


def test_a_verifiers_files_are_its_own(verified: Run) -> None:
    program = "import helper\ndef verify(solution):\n    return helper.check(solution, open('data/want.txt').read())"
    files = {
        "helper.py": "def check(solution, want): return solution.function('f')(1) == int(want)",
        "data/want.txt": "2",
    }
    assert verified(program, verifier_files=files).passed
    answer = (
        "import os\ndef f(x): return 0 if os.path.exists('helper.py') or os.path.exists('data') else x + 1"
    )
    assert verified(program, answer, verifier_files=files).passed


def test_the_seed_reaches_the_program(judged: Run) -> None:
    source = """
from deepgym_verify import rng, seed
import random
def verify(solution):
    solution.source()
    return {"passed": True, "details": {"seed": seed, "draws": [rng.random(), random.random()]}}
"""
    env = Environment(name="t", task="t", verify=Program(source=source, seeded=True), seed=9)
    one, other, again, fixed = (
        judged(env, "", **options) for options in ({"seed": 1}, {"seed": 2}, {"seed": 1}, {})
    )
    assert one.details == again.details != other.details
    assert fixed.details["seed"] == 9
    assert one.seed == 1


def test_the_easy_form_prints_its_report_as_one_line(verified: Run) -> None:
    say = CALL + "import json\nprint(json.dumps({'score': 1.0 if ok else 0.25, 'passed': ok}))\n"
    assert verified(say).passed
    failed = verified(say, "def f(x): return 0")
    assert (failed.score, failed.passed, failed.error_type) == (0.25, False, None)


@pytest.mark.parametrize("status", [0, 1])
def test_the_easy_form_may_end_with_its_exit_status(verified: Run, status: int) -> None:
    passed = "true" if status == 0 else "false"
    result = verified(CALL + f'import sys\nprint(\'{{"score":0.5,"passed":{passed}}}\')\nsys.exit({status})')
    assert (result.score, result.passed, result.error_type) == (0.5, status == 0, None), result.error


def test_what_a_program_prints_beside_its_report_doesnt_matter(verified: Run) -> None:
    assert verified(CALL + "print('{\"score\":0.0}')\nprint('more')\nreport(1.0, True)").passed
    assert verified("print('hello')\n" + returning("return True")).passed


def test_the_report_channel_can_be_written_directly(verified: Run) -> None:
    program = CALL + (
        "import os, sys\n"
        "os.write(int(os.environ['DEEPGYM_REPORT']), b'{\"score\":0.25,\"passed\":false}\\n')\n"
        "sys.exit(1)"
    )
    assert verified(program).score == 0.25


def test_what_the_verifier_writes_to_stderr_is_kept_for_the_reader(verified: Run) -> None:
    result = verified("import sys\nsys.stderr.write('a note')\n" + returning("return True"))
    assert "a note" in result.stderr


def test_a_fresh_interpreter_serves_a_verifier_too(verified: Run) -> None:
    import os

    if not os.path.exists("/usr/bin/python3"):
        pytest.skip("no other Python below /usr")
    assert verified(
        returning("return solution.function('f')(1) == 2"), interpreter=("/usr/bin/python3",)
    ).passed


def test_an_interpreter_that_isnt_there_gives_no_verdict_to_a_verifier(verified: Run, dg: DeepGym) -> None:
    result = verified(returning("return True"), interpreter=("/no/such/python3",))
    assert not result.has_verdict
    result = verified(
        "def verify(solution): return solution.run('').exit_code == 0",
        "x",
        language="other",
        interpreter=("no-such-thing",),
    )
    assert not result.has_verdict
    env = Environment(
        name="t", task="t", verify=Program(source=returning("return True")), interpreter=("/no/such/python3",)
    )
    with pytest.raises(SandboxError):
        dg.run(env, "def f(x): return 2")
