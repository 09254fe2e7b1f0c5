from __future__ import annotations

import textwrap
from typing import Any

import pytest

from deepgym.environments import Case, Cases, Environment

PREFIX = '''\
import math
from typing import List


def helper(x: int) -> int:
    """Not the entry point:
    def area(x): pass
    """
    return x + 1


def area(xs: List[float]) -> float:
    """Add up the squares.

    >>> area([3.0])
    9.0
    """
'''

BODY = (
    "    total = 0.0\n    for x in xs:\n        total += math.pow(x, 2)\n    return total + helper(0) - 1\n"
)
WHOLE = "def area(xs):\n" + BODY
MULTILINE = '    text = """\nkeep\n  this"""\n    return float(len(text)) if xs else 0.0\n'


def environment(prefix: str = PREFIX, entry_point: str | None = "area", **more: Any) -> Environment:
    verify = Cases(function="area", cases=(Case(args=([1.0, 2.0],), expected=5.0),))
    return Environment(name="area", task="t", verify=verify, prefix=prefix, entry_point=entry_point, **more)


def run(code: str, *args: Any) -> Any:
    names: dict[str, Any] = {"__name__": "solution"}
    exec(compile(code, "solution.py", "exec"), names)
    return names["area"](*args)


ANSWERS = {
    "an indented body": BODY,
    "a body whose first line lost its indentation": BODY.strip(),
    "a body that lost all of its indentation": textwrap.dedent(BODY),
    "a body indented by two": BODY.replace("    ", "  "),
    "a body indented by tabs": BODY.replace("    ", "\t"),
    "a body with Windows line ends": BODY.replace("\n", "\r\n"),
    "a body without a final newline": BODY.rstrip(),
    "a body after blank lines": "\n\n" + BODY,
    "a body after a comment": "# the sum of squares\n" + BODY,
    "a body that imports first, at the margin": "from math import pow\n\n" + BODY,
    "one line": "    return math.fsum(x * x for x in xs)",
    "one line without indentation": "return math.fsum(x * x for x in xs)",
    "a body that begins with a block, without indentation": (
        "if not xs:\n    return 0.0\nreturn math.fsum(x * x for x in xs)"
    ),
    "a body whose first line opens a block and lost its indentation": (
        "for x in xs:\n        break\n    return math.fsum(x * x for x in xs)"
    ),
    "a body with a bracket at the margin": "ys = [\nx * x for x in xs\n]\nreturn sum(ys)",
    "a body and then another function": BODY + "\n\ndef main():\n    print(area([1.0]))\n",
    "a body with a function in it": (
        "    def square(x):\n        return x * x\n    return sum(map(square, xs))"
    ),
    "a whole function": WHOLE,
    "a whole function with its imports": "import math\nfrom typing import List\n\n" + WHOLE,
    "the prompt and the body": PREFIX + BODY,
    "a whole function, indented": textwrap.indent(WHOLE, "    "),
    "a whole function after other code": "SQUARE = 2\n\ndef power(x):\n    return x**SQUARE\n\n" + WHOLE,
    "a whole function after a decorated one": "@staticmethod\ndef unused():\n    pass\n\n" + WHOLE,
    "a whole function with a future import": "from __future__ import annotations\n" + WHOLE,
    "a future import over several lines": '"""Doc."""\nfrom __future__ import (\n    annotations,\n)\n'
    + WHOLE,
    "a lambda": "area = lambda xs: sum(x * x for x in xs)",
    "an annotated assignment": "from typing import Any\narea: Any = lambda xs: sum(x * x for x in xs)",
    "a class that can be called": (
        "class area(float):\n    def __new__(cls, xs):\n        return sum(x * x for x in xs)\n"
    ),
    "an import and a lambda": "from math import fsum\narea = lambda xs: fsum(x * x for x in xs)",
    "its own helper instead of the prompt's": "def helper(x):\n    return 1\n\n" + WHOLE,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_a_completion_of_any_form_runs(answer: str) -> None:
    assert run(environment().complete(answer), [1.0, 2.0]) == 5.0


@pytest.mark.parametrize("answer", [MULTILINE, textwrap.dedent(MULTILINE), "def area(xs):\n" + MULTILINE])
def test_text_inside_strings_is_never_indented(answer: str) -> None:
    assert run(environment().complete(answer), [1.0]) == float(len("\nkeep\n  this"))


def test_an_indented_body_is_appended_to_the_prefix_unchanged() -> None:
    assert environment().complete(BODY) == PREFIX + BODY


def test_a_whole_function_gets_only_what_stands_before_the_entry_point() -> None:
    completed = environment().complete(WHOLE)
    assert completed == PREFIX[: PREFIX.index("def area(xs: ")] + WHOLE


def test_a_definition_inside_a_string_is_not_the_entry_point() -> None:
    answer = '    note = """\ndef area(xs):\n    return 7.0\n"""\n    return 5.0\n'
    assert run(environment().complete(answer), []) == 5.0


@pytest.mark.parametrize("answer", ["", "  ", "\n\t\n"])
def test_a_blank_answer_defines_nothing(answer: str) -> None:
    assert environment().complete(answer) == ""


def test_without_a_prefix_the_answer_is_left_alone() -> None:
    for answer in ("", "x", BODY, "def area(: broken"):
        assert environment(prefix="").complete(answer) == answer


def test_without_an_entry_point_the_prefix_comes_first() -> None:
    assert environment(prefix="import os", entry_point=None).complete("x = os") == "import os\nx = os"


def test_in_another_language_the_prefix_comes_first() -> None:
    verify = Cases(cases=(Case(stdout="5\n"),))
    bash = Environment(
        name="b",
        task="t",
        verify=verify,
        language="bash",
        interpreter=("bash",),
        prefix="x=5",
        entry_point="x",
    )
    assert bash.complete("x=6\necho $x") == "x=5\nx=6\necho $x"


def test_a_prefix_that_ends_at_its_signature_is_completed() -> None:
    short = environment(prefix="def area(xs):\n")
    for answer in ("  return 5.0", "return 5.0", "\n    y = 5.0\n    return y\n"):
        assert run(short.complete(answer), []) == 5.0


def test_a_prefix_with_an_import_in_its_body_keeps_it_at_any_indentation() -> None:
    inner = environment(prefix='def area(xs):\n    import math\n    """Doc.\n    More.\n    """\n')
    for answer in ("    return math.sqrt(25)", "  return math.sqrt(25)", "return math.sqrt(25)"):
        assert run(inner.complete(answer), []) == 5.0


def test_a_prefix_without_the_entry_point_is_prepended_whole() -> None:
    only = environment(prefix="import math\n")
    assert (
        only.complete("def area(xs):\n    return math.pi\n")
        == "import math\ndef area(xs):\n    return math.pi\n"
    )
    assert only.complete("area = len") == "import math\narea = len"


def test_a_prefix_that_is_no_python_is_prepended_whole() -> None:
    assert environment(prefix="???").complete("x = 1") == "???\nx = 1"


HOSTILE = {
    "brackets": "(" * 300_000,
    "an open string": "'''" + "a'" * 300_000,
    "escapes": "'''" + "\\'" * 300_000 + "\\",
    "a trailing backslash": '"abc\\',
    "quotes": '"' * 300_001,
    "many strings": "'''\n" * 100_000,
    "future imports": "def area(x): pass\n" + "from __future__ import (\n" * 30_000,
    "indentation": "def area(x):\n" + " " * 300_000 + "return",
    "unary minus": "return " + "-" * 300_000 + "1",
    "a huge number": "return " + "9" * 300_000,
    "blank lines": "\n" * 300_000 + "x",
    "surrogates": "return '\ud800'",
    "null bytes": "\x00return 1",
    "form feeds": "\x0c    return 1",
    "carriage returns": "return 1\r" * 1000,
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_answer_makes_completion_fail(answer: str) -> None:
    completed = environment().complete(answer)
    assert completed.count("import math") >= 1
    assert len(completed) >= len(answer.strip())
