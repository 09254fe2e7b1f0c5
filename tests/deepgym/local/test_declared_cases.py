"""Declared cases on the real sandbox: each way in which an answer can end, and what it earns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deepgym import DeepGym, RunResult
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits
from deepgym.exceptions import SandboxError, VerifierError

pytestmark = pytest.mark.local_sandbox

Run = Callable[..., RunResult]
RIGHT = "def f(x): return x + 1"


def outcomes(result: RunResult) -> list[str | None]:
    return [case.outcome for case in result.cases]


def is_fault(result: RunResult, error_type: str) -> bool:
    return (result.error_type, result.score, result.passed, result.has_verdict, result.reward) == (
        error_type,
        0.0,
        False,
        True,
        0.0,
    )


def test_a_right_answer_passes(called: Run) -> None:
    result = called(RIGHT)
    assert (result.score, result.passed, result.error_type, result.reward) == (1.0, True, None, 1.0)
    assert outcomes(result) == ["passed"] * 3
    assert result.isolation == "namespaces"
    assert set(result.enforced) == {"files", "network", "pids", "memory", "disk"}
    assert result.enforced["files"] == result.enforced["network"] == result.enforced["disk"] == "enforced"
    assert result.solution_exit == 0
    assert result.exit_code is None
    assert result.execution_time_ms > 0
    assert set(result.timings) >= {"queue", "open", "run", "total"}


def test_a_wrong_answer_scores_zero_without_an_error(called: Run) -> None:
    result = called("def f(x): return x")
    assert (result.score, result.passed, result.error_type, result.has_verdict) == (0.0, False, None, True)
    assert outcomes(result) == ["wrong"] * 3


def test_an_exception_in_one_case_costs_that_case_alone(called: Run) -> None:
    result = called("def f(x): return x + 1 if x != 2 else 1 // 0")
    assert result.score == pytest.approx(2 / 3)
    assert (result.passed, result.error_type) == (False, None)
    assert outcomes(result) == ["passed", "raised", "passed"]
    assert "ZeroDivisionError" in result.cases[1].message


def test_a_case_weighs_what_it_says(judged: Run) -> None:
    cases = (Case(args=(1,), expected=2, weight=3.0), Case(args=(2,), expected=0))
    env = Environment(name="t", task="t", verify=Cases(function="f", cases=cases))
    assert judged(env, RIGHT).score == 0.75


@pytest.mark.parametrize(
    "loop", ["while True: pass", "sum(range(10 ** 12))", "import time; time.sleep(60)", "x = 7 ** (7 ** 9)"]
)
def test_a_case_over_its_time_fails_alone(called: Run, loop: str) -> None:
    result = called(f"def f(x):\n    if x == 2:\n        {loop}\n    return x + 1", case_timeout=0.6)
    assert outcomes(result) == ["passed", "timeout", "passed"]
    assert result.score == pytest.approx(2 / 3)
    assert result.error_type is None


def test_state_that_a_case_over_its_time_took_with_it_doesnt_change_the_others(called: Run) -> None:
    result = called(
        """
        seen = []
        def f(x):
            seen.append(x)
            while x == 1: pass
            return len(seen)
        """,
        (1, 1),
        (2, 1),
        (3, 2),
        case_timeout=0.6,
    )
    assert outcomes(result) == ["timeout", "passed", "passed"]


def test_cases_that_all_run_over_their_time_end_with_the_run(called: Run) -> None:
    result = called("def f(x):\n    while True: pass", case_timeout=0.4, wall=0.6)
    assert is_fault(result, "solution_timeout")


@pytest.mark.parametrize(
    "answer",
    [
        "while True: pass",
        "def f(x):\n    while True: pass",
        "def f(x): return sum(range(10 ** 12))",
        "import os\ndef f(x): os.kill(os.getpid(), 19)",
        "import time\ndef f(x): time.sleep(1000)",
        "import os, time\ndef f(x):\n    os.fork()\n    time.sleep(1000)",
        "import threading\ndef f(x):\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()",
        "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass\nwhile True: pass",
    ],
    ids=lambda text: text.replace("\n", " ")[:45],
)
def test_an_answer_that_doesnt_end_is_a_solution_timeout(called: Run, answer: str) -> None:
    result = called(answer, wall=0.5)
    assert is_fault(result, "solution_timeout")
    assert result.timings["kill"] >= 500.0


ENDS = {
    "sys.exit(0)": "import sys\ndef f(x): sys.exit(0)",
    "sys.exit(2)": "import sys\ndef f(x): sys.exit(2)",
    "raise SystemExit": "def f(x): raise SystemExit",
    "exit at import": "raise SystemExit(0)",
    "os._exit(0)": "import os\ndef f(x): os._exit(0)",
    "os.abort": "import os\ndef f(x): os.abort()",
    "segfault": "import ctypes\ndef f(x): ctypes.string_at(0)",
    "SIGKILL": "import os\ndef f(x): os.kill(os.getpid(), 9)",
    "SIGTERM": "import os\ndef f(x): os.kill(0, 15)",
    "exec": "import os\ndef f(x): os.execv('/usr/bin/env', ['env'])",
    "KeyboardInterrupt": "def f(x): raise KeyboardInterrupt",
    "error at import": "1 / 0",
    "recursion at import": "def g(): g()\ng()",
    "syntax error": "def f(x:",
    "indentation": "  def f(x):\nreturn",
    "NUL": "def f(x): return x + 1\0",
    "only NUL": "\0",
    "lone surrogate": "def f(x): return '\ud800'",
    "only a surrogate": "\udfff",
    "empty": "",
    "blank": " \n\t\n",
    "text": "Here is the function you asked for.",
    "bad encoding line": "# coding: nonsense\ndef f(x): return x + 1",
    "missing": "def g(x): return x + 1",
    "not callable": "f = 5",
    "deleted": "def f(x): return x + 1\ndel f",
    "nested bomb": "(" * 100_000 + ")" * 100_000,
    "deep expression": "f = " + "-" * 100_000 + "1",
    "long sum": "f = " + "1+" * 50_000 + "1",
    "huge constant": "f = '" + "x" * (5 << 20) + "'",
    "memory": "held = []\nwhile True: held.append(bytearray(1 << 24))",
    "closed channel": "import os\nos.close(3)\n" + RIGHT,
    "closed everything": "import os\nos.closerange(0, 256)\n" + RIGHT,
    "channel on null": "import os\nos.dup2(0, 3)\n" + RIGHT,
    "no write": "import os\nos.write = None\n" + RIGHT,
    "no builtins": "import builtins\nbuiltins.type = builtins.len = None\n" + RIGHT,
    "shut down": "import socket\ns = socket.socket(fileno=3)\ns.shutdown(2)\n" + RIGHT,
}


@pytest.mark.parametrize("answer", ENDS.values(), ids=ENDS)
def test_an_answer_that_ends_while_a_reply_is_owed_is_a_solution_error(called: Run, answer: str) -> None:
    assert is_fault(called(answer), "solution_error")


@pytest.mark.parametrize("status", [0, 1, 2, 70, 99, 124, 126, 127, 137, 143, 255])
@pytest.mark.parametrize("when", ["at import", "in a call"])
def test_no_exit_status_of_an_answer_takes_its_verdict_away(called: Run, status: int, when: str) -> None:
    leave = f"os._exit({status})"
    result = called(f"import os\n{leave}" if when == "at import" else f"import os\ndef f(x): {leave}")
    assert is_fault(result, "solution_error")
    assert result.exit_code is None
    assert result.solution_exit == status


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 11, 15, 31])
def test_no_signal_to_itself_takes_an_answers_verdict_away(called: Run, number: int) -> None:
    result = called(
        f"import os, signal\nsignal.signal(2, signal.SIG_DFL)\ndef f(x): os.kill(os.getpid(), {number})"
    )
    assert is_fault(result, "solution_error")
    assert result.solution_exit == -number


def test_the_signal_of_the_cpu_limit_is_a_judged_zero_even_if_an_answer_sends_it_itself(called: Run) -> None:
    result = called("import os\ndef f(x): os.kill(os.getpid(), 24)")
    assert result.error_type in ("solution_error", "solution_timeout")
    assert (result.score, result.has_verdict) == (0.0, True)


def test_an_error_at_import_shows_its_traceback_without_the_hosts_own_frames(called: Run) -> None:
    result = called("def g():\n    raise ValueError('mine')\ng()")
    assert "ValueError: mine" in result.stderr
    assert 'File "solution.py", line 2' in result.stderr
    assert "solution_host" not in result.stderr
    assert "zygote" not in result.stderr


def test_a_very_long_answer_is_run_like_any_other(called: Run) -> None:
    assert called("#" + "x" * (5 << 20) + "\n" + RIGHT).passed
    assert called("text = '" + "é" * (2 << 20) + "'\n" + RIGHT).passed


FORGED = {
    "wrong values": 'b\'{"id":1,"v":0}\\n{"id":2,"v":0}\\n{"id":3,"v":0}\\n\'',
    "one reply": 'b\'{"id":1,"v":2}\\n\'',
    "four replies": 'b"".join(b\'{"id":%d,"v":%d}\\n\' % (n, n + 1) for n in (1, 2, 3, 4))',
    "ids out of order": 'b\'{"id":2,"v":3}\\n{"id":1,"v":2}\\n{"id":3,"v":4}\\n\'',
    "the same id": 'b\'{"id":1,"v":2}\\n\' * 3',
    "an id as text": 'b\'{"id":"1","v":2}\\n{"id":2,"v":3}\\n{"id":3,"v":4}\\n\'',
    "an id as a bool": 'b\'{"id":true,"v":2}\\n{"id":2,"v":3}\\n{"id":3,"v":4}\\n\'',
    "empty lines": 'b"\\n" * 3',
    "not JSON": 'b"passed\\n" * 3',
    "a mark": 'b"S" + b"\\0" * 8 + b"\\n"',
    "a set-up error": 'b"!sandbox broke\\n"',
    "a report": 'b\'{"score":1.0,"passed":true}\\n\'',
    "a host's fact": "b'#{\"fault\":null}\\n'",
    "an error alone": 'b\'{"id":1,"e":"X","m":"y"}\\n\'',
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("then", ["leave", "go on"])
def test_a_forged_reply_never_passes_and_never_takes_the_verdict_away(
    called: Run, data: str, then: str
) -> None:
    leave = "os._exit(0)" if then == "leave" else "pass"
    result = called(f"import os\nos.write(3, {data})\n{leave}\ndef f(x): return x + 1")
    assert result.has_verdict
    assert not result.passed
    assert result.score < 1.0


def test_a_reply_too_many_costs_the_run(called: Run) -> None:
    result = called("""
        import os
        def f(x):
            if x == 3:
                os.write(3, b'{"id":3,"v":4}\\n')
            return x + 1
    """)
    assert is_fault(result, "solution_error")


def test_a_duplicate_key_in_a_reply_isnt_the_last_ones_value(called: Run) -> None:
    result = called('import os\nos.write(3, b\'{"id":1,"v":0,"v":2}\\n\')\nos._exit(0)\n', (1, 2))
    assert not result.passed
    assert outcomes(result) == ["malformed"]


@pytest.mark.parametrize(
    "value",
    [
        '"x" * (2 << 20)',
        "[0] * (1 << 20)",
        "[[]] * 400_000",
        "10 ** 5000",
        "float('nan')",
        "{1: float('inf')}",
    ],
)
def test_a_reply_that_cant_be_taken_fails_its_case_alone(called: Run, value: str) -> None:
    result = called(f"def f(x): return x + 1 if x != 2 else {value}")
    assert result.score == pytest.approx(2 / 3)
    assert result.error_type is None
    assert outcomes(result)[1] in ("malformed", "raised", "wrong")


def test_replies_without_end_are_a_solution_error(called: Run) -> None:
    assert is_fault(called("import os\nwhile True: os.write(3, b'x' * 65536)"), "solution_error")
    assert is_fault(called("def f(x): return 'x' * (20 << 20)"), "solution_error")


def test_a_reply_that_stops_halfway_is_a_solution_error_or_a_timeout(called: Run) -> None:
    assert is_fault(called("import os\nos.write(3, b'{\"id\":1,')\nos._exit(0)"), "solution_error")
    hang = "import os, time\nos.write(3, b'{\"id\":1,')\ntime.sleep(60)"
    assert is_fault(called(hang, wall=0.5), "solution_timeout")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_more_output_than_is_kept_is_cut_while_the_answer_goes_on_and_passes(
    called: Run, stream: str
) -> None:
    result = called(
        f"import sys\ndef f(x):\n    sys.{stream}.write('y' * 300_000)\n    return x + 1", output=1000
    )
    assert result.passed
    assert result.truncated
    kept = result.output if stream == "stdout" else result.stderr
    assert kept == "y" * 1000


def test_output_within_the_limit_is_kept_whole(called: Run) -> None:
    result = called("import sys\ndef f(x):\n    print(x)\n    print(-x, file=sys.stderr)\n    return x + 1")
    assert (result.output, result.stderr, result.truncated) == ("1\n2\n3\n", "-1\n-2\n-3\n", False)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_without_end_is_a_judged_zero(called: Run, stream: str) -> None:
    result = called(
        f"import os\nwhile True: os.write({1 if stream == 'stdout' else 2}, b'x' * 65536)", wall=10.0
    )
    assert result.has_verdict
    assert result.score == 0.0
    assert result.error_type in ("solution_error", "solution_timeout")
    assert result.truncated


def test_output_that_isnt_text_is_kept_as_far_as_it_can_be(called: Run) -> None:
    result = called("import os\nos.write(1, b'a\\xff\\x00\\xed\\xa0\\x80b')\n" + RIGHT)
    assert result.passed
    assert result.output.startswith("a")
    assert result.output.endswith("b")
    result.model_dump_json().encode()


def test_an_exception_whose_text_is_hostile_fails_its_case_alone(called: Run) -> None:
    result = called(
        r"""
        class Bad(Exception):
            def __str__(self): raise RuntimeError("no text")
        class Loud(Exception):
            def __str__(self): return "x" * 10_000_000
        class Odd(Exception):
            def __str__(self): return "a\ud800\x00\n"
        def f(x):
            raise (Bad(), Loud(), Odd())[x]
    """,
        (0, 0),
        (1, 0),
        (2, 0),
    )
    assert outcomes(result) == ["raised"] * 3
    assert result.error_type is None
    result.model_dump_json().encode()
    assert all(len(case.message) < 2000 for case in result.cases)


def test_an_exception_of_the_base_class_fails_its_case_alone(called: Run) -> None:
    result = called("class Stop(BaseException): pass\ndef f(x):\n    if x == 2: raise Stop\n    return x + 1")
    assert outcomes(result) == ["passed", "raised", "passed"]


def test_recursion_and_lack_of_memory_fail_their_case_alone(called: Run) -> None:
    result = called(
        """
        def f(x):
            if x == 1: return f(x)
            if x == 2: return bytearray(1 << 40)
            return x + 1
        """
    )
    assert outcomes(result) == ["raised", "raised", "passed"]


def test_a_child_that_outlives_the_answer_neither_holds_nor_fails_it(called: Run) -> None:
    result = called("""
        import os, time
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        def f(x): return x + 1
    """)
    assert result.passed


def test_a_child_cant_answer_for_its_parent_twice(called: Run) -> None:
    result = called("import os\nos.fork()\ndef f(x): return x + 1", wall=3.0)
    assert result.has_verdict
    assert result.score in (0.0, 1.0)


@pytest.mark.parametrize(
    "answer",
    [
        "import sys\nsys.stdout.close()\nsys.stderr.close()\n" + RIGHT,
        "import sys\nsys.stdout = sys.stderr = None\n" + RIGHT,
        "import os\nos.close(0); os.close(1); os.close(2)\n" + RIGHT,
        "import sys\nsys.modules.clear()\n" + RIGHT,
        "import atexit, time\natexit.register(time.sleep, 1000)\n" + RIGHT,
        "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=False).start()\n"
        + RIGHT,
        "import gc\ngc.set_threshold(1)\n" + RIGHT,
        "if __name__ == '__main__':\n    raise SystemExit(3)\n" + RIGHT,
        "import sys\nprint(input)\n" + RIGHT,
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
        "def f(x): return P(x).x + 1",
        "import functools\n@functools.lru_cache\ndef f(x): return x + 1",
        "f = lambda x: x + 1",
        "class F:\n    def __call__(self, x): return x + 1\nf = F()",
        "import pickle\nclass A: pass\nA = pickle.loads(pickle.dumps(A))\n" + RIGHT,
        "import multiprocessing\ndef g(x): return x + 1\ndef f(x):\n    with multiprocessing.get_context('fork').Pool(1)"
        " as pool: return pool.map(g, [x])[0]",
        "from concurrent.futures import ThreadPoolExecutor\ndef f(x):\n    with ThreadPoolExecutor() as pool:"
        " return pool.submit(lambda: x + 1).result()",
        "import subprocess, sys\ndef f(x): return int(subprocess.run(['bash', '-c', f'echo $(({x} + 1))'],"
        " capture_output=True).stdout)",
        "import tempfile\ndef f(x):\n    with tempfile.TemporaryFile() as t: t.write(b'x')\n    return x + 1",
    ],
    ids=lambda text: text.replace("\n", " ")[:50],
)
def test_unusual_but_right_answers_pass(called: Run, answer: str) -> None:
    result = called(answer)
    assert result.passed, (result.error_type, result.error, result.stderr, result.cases)


def test_a_value_must_have_the_very_type_that_is_expected(called: Run) -> None:
    assert outcomes(called("def f(x): return float(x + 1)")) == ["wrong"] * 3
    assert outcomes(called("def f(x): return x == 0", (0, 1))) == ["wrong"]
    assert outcomes(called("class I(int): pass\ndef f(x): return I(x + 1)")) == ["raised"] * 3
    liar = "class L:\n    def __eq__(self, other): return True\n    __class__ = int\ndef f(x): return L()"
    assert outcomes(called(liar)) == ["raised"] * 3


@pytest.mark.parametrize(
    "value",
    [
        (1, (2,)),
        {1, 2},
        frozenset(["a"]),
        b"\x00",
        {1: "x", (2, 3): [4]},
        {"!t": [1]},
        1j,
        10**40,
        "\n",
        None,
    ],
)
def test_values_cross_to_the_answer_and_back_with_their_types(called: Run, value: Any) -> None:
    result = called(
        f"def f(x):\n    assert x == {value!r} and type(x) is type({value!r})\n    return x", (value, value)
    )
    assert result.passed, result.cases


def test_a_float_may_be_off_by_the_tolerance_where_the_environment_says_so(called: Run) -> None:
    assert called("def f(x): return x / 3 * 3 + 1e-12", (0.7, 0.7), compare="float").passed
    assert not called("def f(x): return x + 1e-3", (0.7, 0.7), compare="float").passed
    assert called("def f(x): return x[::-1]", ([1, 2], [1, 2]), compare="unordered").passed
    assert called("def f(x): return x + x", ([1, 2], [1, 2]), compare="set").passed


def test_nan_is_only_ever_right_where_the_environment_asks_for_it(called: Run) -> None:
    answer = "def f(x): return float('nan')"
    assert outcomes(called(answer, (1, 1.0))) == ["malformed"]
    assert called(answer, (1, float("nan")), allow_nonfinite=True).passed


def test_a_class_is_used_step_by_step(judged: Run) -> None:
    steps = Case(
        calls=(("Stack", 3), ("push", 1), ("push", (2,)), ("pop",)), expected=[None, None, None, (2,)]
    )
    env = Environment(name="t", task="t", verify=Cases(function="Stack", cases=(steps, steps)))
    right = """
class Stack:
    def __init__(self, size): self.items = []
    def push(self, item): self.items.append(item)
    def pop(self): return self.items.pop()
"""
    assert judged(env, right).passed
    assert outcomes(judged(env, right.replace("def pop", "def pup"))) == ["raised"] * 2
    assert outcomes(judged(env, right.replace(".pop()", "[0]"))) == ["wrong"] * 2


def test_arguments_may_be_named(judged: Run) -> None:
    case = Case(args=(1,), kwargs={"b": (2, 3)}, expected=[1, (2, 3)])
    env = Environment(name="t", task="t", verify=Cases(function="f", cases=(case,)))
    assert judged(env, "def f(a, b): return [a, b]").passed


def test_files_of_the_environment_lie_in_the_work_folder(judged: Run) -> None:
    verify = Cases(function="f", cases=(Case(expected="héllo\r\n"),))
    env = Environment(name="t", task="t", verify=verify, files={"a/b/c.txt": "héllo\r\n"})
    answer = "def f(): return open('a/b/c.txt', encoding='utf-8', newline='').read()"
    assert judged(env, answer).passed


DRAWN = """
def draw(rng):
    return [{"args": (rng.randrange(10 ** 12),), "expected": 0} for _ in range(3)]
"""


def test_drawn_cases_follow_the_seed(judged: Run) -> None:
    env = Environment(name="t", task="t", seed=5, verify=Cases(function="f", draw=DRAWN))
    answer = "def f(x):\n    print(x)\n    return 0"
    outputs = [
        judged(env, answer, **options).output
        for options in ({"seed": 1}, {"seed": 2}, {"seed": 1}, {}, {"seed": 5})
    ]
    assert outputs[0] == outputs[2]
    assert outputs[3] == outputs[4]
    assert len(set(outputs)) == 3


def test_drawn_cases_come_after_the_fixed_ones(judged: Run) -> None:
    verify = Cases(function="f", cases=(Case(args=(-1,), expected=0),), draw=DRAWN)
    result = judged(Environment(name="t", task="t", verify=verify), "def f(x):\n    print(x)\n    return 0")
    assert result.passed
    assert len(result.cases) == 4
    assert result.output.startswith("-1\n")


@pytest.mark.parametrize(
    "body",
    [
        "1 / 0",
        "return 5",
        "return []",
        "return [{'nonsense': 1}]",
        "return [{'args': (1,), 'expected': object()}]",
        "return [{'stdin': '', 'stdout': ''}]",
        "raise SystemExit(0)",
        "raise SystemExit(2)",
        "import os; os._exit(0)",
        "import os; os.kill(os.getpid(), 9)",
    ],
)
def test_a_draw_that_fails_gives_no_verdict(dg: DeepGym, judged: Run, body: str) -> None:
    env = Environment(name="t", task="t", verify=Cases(function="f", draw=f"def draw(rng):\n    {body}"))
    result = judged(env, "def f(x): return 0")
    assert (result.error_type, result.has_verdict, result.score) == ("verifier_error", False, 0.0)
    with pytest.raises(VerifierError):
        dg.run(env, "def f(x): return 0")


def test_a_drawn_case_isnt_visible_to_the_answer_before_it_is_asked(judged: Run) -> None:
    draw = "SECRET = 'a-word-of-the-draw'\ndef draw(rng):\n    return [{'args': (1,), 'expected': SECRET}]"
    answer = """
import gc, glob
def f(x):
    found = [path for path in glob.glob('/box/**', recursive=True)]
    print(found, 'a-word' + '-of-the-draw' in repr([o for o in gc.get_objects() if isinstance(o, (str, dict, list))]))
    return 0
"""
    result = judged(Environment(name="t", task="t", verify=Cases(function="f", draw=draw)), answer)
    assert "True" not in result.output


# Programs: stdin and stdout.


def test_a_program_prints_what_is_expected(printed: Run) -> None:
    assert printed("print(int(input()) + 1)").passed
    assert printed("if __name__ == '__main__':\n    print(int(input()) + 1)").passed


def test_spaces_at_line_ends_and_empty_last_lines_dont_count(printed: Run) -> None:
    assert printed("print('a \\nb\\n\\n')", ("", "a\nb")).passed
    assert not printed("print('a\\n\\nb')", ("", "a\nb")).passed
    assert not printed("print(' a')", ("", "a")).passed


def test_a_programs_exit_status_must_be_zero(printed: Run) -> None:
    for status in (1, 2, 3, 124, 137):
        result = printed(f"n = int(input())\nprint(n + 1)\nraise SystemExit({status} if n == 2 else 0)")
        assert outcomes(result) == ["passed", "raised"]
        assert result.error_type is None


def test_each_input_meets_a_fresh_process(printed: Run) -> None:
    program = """
        import builtins
        builtins.count = getattr(builtins, "count", 0) + 1
        print(builtins.count, input())
    """
    assert printed(program, ("a\n", "1 a"), ("b\n", "1 b")).passed


@pytest.mark.parametrize("loop", ["while n == 2: pass", "if n == 2: sum(range(10 ** 12))"])
def test_a_programs_case_over_its_time_fails_alone(printed: Run, loop: str) -> None:
    result = printed(f"n = int(input())\n{loop}\nprint(n + 1)", case_timeout=0.6)
    assert outcomes(result) == ["passed", "timeout"]


def test_a_program_that_doesnt_end_is_a_solution_timeout(printed: Run) -> None:
    assert is_fault(printed("while True: pass", wall=0.5), "solution_timeout")


def test_a_program_that_prints_too_much_is_wrong(printed: Run) -> None:
    result = printed("n = int(input())\nprint('x' * 5000 if n == 2 else n + 1)", output=1000)
    assert outcomes(result) == ["passed", "wrong"]


def test_a_program_whose_child_lives_on_is_judged_all_the_same(printed: Run) -> None:
    result = printed(
        "import os, time\nprint(int(input()) + 1, flush=True)\nif os.fork() == 0:\n    time.sleep(1000)"
    )
    assert result.passed


def test_a_program_that_kills_its_host_is_a_solution_error(printed: Run) -> None:
    assert is_fault(printed("import os\nos.kill(os.getppid(), 9)"), "solution_error")


@pytest.mark.parametrize(
    "program", ["1 / 0", "raise SystemExit(2)", "import os; os._exit(0)", "import os; os.abort()", ""]
)
def test_a_program_that_fails_on_every_input_scores_zero_with_a_verdict(printed: Run, program: str) -> None:
    result = printed(program)
    assert (result.score, result.has_verdict) == (0.0, True)


def test_a_program_with_a_syntax_error_is_a_judged_zero(printed: Run) -> None:
    result = printed("print(")
    assert (result.score, result.has_verdict) == (0.0, True)


# Other interpreters.


BASH: dict[str, Any] = {"language": "bash", "interpreter": ("bash",)}


def test_another_language_runs_through_its_interpreter(printed: Run) -> None:
    assert printed("read n\necho $((n + 1))", **BASH).passed
    assert outcomes(printed("read n\necho $((n + 2))", **BASH)) == ["wrong"] * 2


@pytest.mark.parametrize(
    "command", ["exit 2", "kill -9 $$", "exec false", "syntax ((", "nosuchcommand || exit"]
)
def test_another_languages_failure_fails_its_case_alone(printed: Run, command: str) -> None:
    result = printed(f"read n\nif [ $n = 2 ]; then\n{command}\nfi\necho $((n + 1))", **BASH)
    assert result.has_verdict
    assert not result.passed
    assert result.error_type is None


def test_another_languages_program_is_as_isolated(printed: Run) -> None:
    look = "[ -e /etc/passwd ] && exit 3\n[ -w /usr ] && exit 4\ngrep -c : /proc/net/dev\necho $UID"
    assert printed(look, ("", "1\n1000"), **BASH).passed


def test_an_interpreter_that_isnt_there_gives_no_verdict(dg: DeepGym, printed: Run, called: Run) -> None:
    missing = printed("echo 1", language="other", interpreter=("no-such-interpreter",))
    assert (missing.has_verdict, missing.score) == (False, 0.0)
    assert "no-such-interpreter" in (missing.error or "") + missing.stderr
    missing = called(RIGHT, interpreter=("/no/such/python3",))
    assert (missing.has_verdict, missing.score) == (False, 0.0)


def test_run_raises_for_an_interpreter_that_isnt_there(dg: DeepGym) -> None:
    verify = Cases(function="f", cases=(Case(args=(1,), expected=2),))
    env = Environment(name="t", task="t", verify=verify, interpreter=("/no/such/python3",))
    with pytest.raises(SandboxError) as raised:
        dg.run(env, RIGHT)
    assert raised.value.result is not None
    assert raised.value.result.has_verdict is False


def _system_python() -> str:
    import os

    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.path.exists(path):
            return path
    pytest.skip("no other Python below /usr")


def test_a_fresh_interpreter_answers_function_cases(called: Run) -> None:
    python = _system_python()
    result = called(
        "import sys\ndef f(x):\n    print(sys.executable)\n    return x + 1", interpreter=(python,)
    )
    assert result.passed, (result.error, result.stderr)
    assert result.output.split() == [python] * 3


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        ("def f(x:", "solution_error"),
        ("import os\nos._exit(2)", "solution_error"),
        ("while True: pass", "solution_timeout"),
        ("def g(x): return 1", "solution_error"),
    ],
)
def test_a_fresh_interpreter_judges_failures_alike(called: Run, answer: str, error_type: str) -> None:
    wall = 1.0 if error_type == "solution_timeout" else 20.0
    assert is_fault(called(answer, interpreter=(_system_python(),), wall=wall), error_type)


def test_a_fresh_interpreter_keeps_partial_credit(called: Run) -> None:
    result = called("def f(x): return x + 1 if x != 2 else 1 // 0", interpreter=(_system_python(),))
    assert outcomes(result) == ["passed", "raised", "passed"]


def test_limits_reach_a_batch_of_mixed_answers_without_moving_its_siblings(dg: DeepGym) -> None:
    verify = Cases(function="f", cases=(Case(args=(1,), expected=2),))
    env = Environment(name="t", task="t", verify=verify, limits=EnvironmentLimits(wall=1.0))
    bad = [ENDS["SIGKILL"], "while True: pass", ENDS["memory"], ENDS["syntax error"]]
    answers = [item for one in bad for item in (RIGHT, one)]
    batch = dg.run_batch(env, answers)
    assert [result.passed for result in batch.results] == [True, False] * 4
    assert all(result.has_verdict for result in batch.results)


@pytest.mark.parametrize("number", [9, 11, 33, 34])
def test_the_signal_that_ended_an_answer_stands_in_its_result(
    called: Callable[..., RunResult], number: int
) -> None:
    """33 is also the code of "!", with which a zygote's own complaint begins."""
    result = called(f"import os\nos.kill(os.getpid(), {number})\ndef f(x): return x + 1")
    assert (result.error_type, result.solution_exit, result.score) == ("solution_error", -number, 0.0)
