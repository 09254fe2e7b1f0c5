from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgym import DeepGym
from deepgym.environments import Case, Cases, Environment, load_suite
from deepgym_lmeval.completions import code, prompt, stops

HUMANEVAL = load_suite("humaneval").environments
BUILTIN = load_suite("builtin").environments

#: Two functions, of which a model writes the second.
PREFIX = '''\
import math
from typing import List


def helper(x: int) -> int:
    """Not the entry point."""
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
CASES = Cases(function="area", cases=(Case(args=([1.0, 2.0],), expected=5.0),))
AREA = Environment(name="area", task=PREFIX, prefix=PREFIX, entry_point="area", verify=CASES)


def run(answer: str, environment: Environment = AREA) -> Any:
    names: dict[str, Any] = {"__name__": "solution"}
    exec(compile(environment.complete(code(environment, answer)), "solution.py", "exec"), names)
    return names["area"]([1.0, 2.0])


# What is asked.


def test_a_humaneval_task_is_continued_as_the_data_set_has_it() -> None:
    for environment in HUMANEVAL:
        assert prompt(environment) == environment.prefix == environment.task
        assert prompt(environment).endswith(('"""\n', "'''\n"))
        assert stops(environment) == ("\nif __name__", "\nprint(", "\nassert ")


def test_any_other_task_is_followed_by_an_opened_fence() -> None:
    for environment in BUILTIN:
        assert prompt(environment) == environment.task.rstrip() + "\n\n```python\n"
        assert stops(environment) == ("\n```",)


def test_the_fence_names_the_environments_language() -> None:
    bash = Environment(
        name="b",
        task="Say hello.\n",
        language="bash",
        interpreter=("bash",),
        verify=Cases(cases=(Case(stdout="hello\n"),)),
    )
    assert prompt(bash) == "Say hello.\n\n```bash\n"
    assert code(bash, "echo hello\n```\nThat's it.") == "echo hello\n"
    assert code(bash, "Sure:\n```bash\necho hello\n```\n") == "echo hello\n"


def test_a_prefix_that_is_not_the_whole_task_stands_open_in_the_fence() -> None:
    environment = AREA.model_copy(update={"task": "Add up the squares."})
    assert prompt(environment) == "Add up the squares.\n\n```python\n" + PREFIX
    assert stops(environment) == ("\n```",)
    assert run(BODY + "```\n\nIt loops.\n", environment) == 5.0
    assert run(WHOLE, environment) == 5.0


def test_a_prefix_without_a_final_newline_gets_one_in_the_fence() -> None:
    environment = AREA.model_copy(update={"task": "Add.", "prefix": "import math"})
    assert prompt(environment) == "Add.\n\n```python\nimport math\n"


def test_a_task_that_is_code_without_an_entry_point_is_shown_in_a_fence() -> None:
    environment = AREA.model_copy(update={"entry_point": None})
    assert prompt(environment).endswith("```python\n" + PREFIX)
    assert code(environment, "    return 5.0\nprint(1)\n```\n") == "    return 5.0\nprint(1)\n"


# What is taken of the text.

KEPT = {
    "an indented body": BODY,
    "a body whose first line lost its indentation": BODY.strip(),
    "a body that lost all of its indentation": textwrap.dedent(BODY),
    "a body indented by two": BODY.replace("    ", "  "),
    "a body indented by tabs": BODY.replace("    ", "\t"),
    "a body with Windows line ends": BODY.replace("\n", "\r\n"),
    "a body with a Mac's line ends": BODY.replace("\n", "\r"),
    "a body after blank lines": "\n\n" + BODY,
    "a body after a comment": "# the sum of squares\n" + BODY,
    "a body after prose": "Here is the function's body:\n\n" + BODY,
    "a body that imports first, at the margin": "from math import pow\n\n" + BODY,
    "one line": "    return math.fsum(x * x for x in xs)",
    "one line without indentation": "return math.fsum(x * x for x in xs)",
    "a body that begins with a block, without indentation": (
        "if not xs:\n    return 0.0\nelse:\n    return math.fsum(x * x for x in xs)"
    ),
    "a body without indentation that returns in a block": (
        "try:\n    return math.fsum(x * x for x in xs)\nexcept ValueError:\n    pass\nfinally:\n    pass"
    ),
    "a body whose first line opens a block and lost its indentation": (
        "for x in xs:\n        break\n    return math.fsum(x * x for x in xs)"
    ),
    "a body with brackets at the margin": "    ys = [\nx * x for x in xs\n]\n    return sum(ys)",
    "a body without indentation with brackets": "ys = [\n    x * x for x in xs\n]\nreturn sum(ys)",
    "a body without indentation with a wrapped line": "ys = [\n    x * x for x in xs]\nreturn sum(ys)",
    "a body with a backslash": "    total = \\\n0.0\n    return total + 5.0",
    "a body with text at the margin": '    text = """\nprint(1)\ndef area(): pass\n"""\n    return float(len(text) - 22)',
    "a body with a comment at the margin": "    total = 5.0\n# the end\n    return total",
    "a body with a function in it": "    def square(x):\n        return x * x\n    return sum(map(square, xs))",
    "a function in a body without indentation": "def square(x):\n    return x * x\n\nreturn sum(map(square, xs))",
    "a form feed": "    total = 5.0\n\x0c    return total",
    "a body without indentation with prose in it": "total = 5.0\n\nSo it's:\n\nreturn total",
    "a whole function": WHOLE,
    "a whole function with its imports": "import math\nfrom typing import List\n\n" + WHOLE,
    "the prompt and the body": PREFIX + BODY,
    "a whole function, indented": textwrap.indent(WHOLE, "    "),
    "a whole function after prose": "The function is:\n\n" + WHOLE,
    "a whole function after other code": "SQUARE = 2\n\ndef power(x):\n    return x**SQUARE\n\n" + WHOLE,
    "a whole function after what sets it up": (
        "import sys\nsys.setrecursionlimit(5000)\nSQUARES = {}\nfor n in range(9):\n    SQUARES[n] = n * n\n\n"
        "def area(xs):\n    return float(sum(SQUARES[x] for x in xs))\n"
    ),
    "a whole function after a guarded import": (
        "try:\n    import nothing_like_it as m\nexcept ImportError:\n    import math as m\n\n"
        "def area(xs):\n    return m.fsum(x * x for x in xs)\n"
    ),
    "a decorated function": "import functools\n\n@functools.wraps(\n    len\n)\n" + WHOLE,
    "a function that its decorator changes": (
        "def doubled(function):\n    return lambda xs: 2 * function(xs)\n\n\n@doubled\ndef area(xs):\n    return 2.5\n"
    ),
    "a whole function between prose and tests": (
        f"The function is:\n\nimport math\n\nSee, it's easy.\n\nassert area([1.0, 2.0]) == 7\n\n{WHOLE}"
    ),
    "a future import": "from __future__ import annotations\n" + WHOLE,
    "a lambda": "area = lambda xs: sum(x * x for x in xs)",
    "an import and a lambda": "from math import fsum\narea = lambda xs: fsum(x * x for x in xs)",
    "its own helper instead of the prompt's": "def helper(x):\n    return 1\n\n" + WHOLE,
    "a tag in the prose before a fence": f"Of the </s> tag:\n\n```python\n{WHOLE}```",
    "a block in a fence": f"Here it is:\n\n```python\n{WHOLE}```\nIt works.",
    "a body in a fence": f"```python\n{BODY}```",
    "a fence that isn't closed": f"Sure!\n```\n{WHOLE}",
    "a heading and a fence": f"# The function\n\nIt loops.\n\n```python\n{WHOLE}```",
    "the end of a fence, prose and a fence": f"```\n\nThe function loops:\n\n```python\n{WHOLE}```\nIt works.",
    "the end of a fence and a fence": f"```\n```python\n{WHOLE}```\n",
    "a fence without a language": f"```\n{WHOLE}```\n",
    "reasoning before a body": f"<think>\nreturn 1?\n</think>\n{BODY}",
    "an end token": BODY.rstrip() + "<|im_end|>",
    "an end token and the next turn": BODY.rstrip() + "<|im_end|>\n<|im_start|>user\nThanks, it's good.",
    "an end token in a comment": BODY.rstrip() + "  # it's done<|endoftext|>import os, this",
    "another end token": BODY.rstrip() + "</s>",
}

BELOW = {
    "nothing": "",
    "an unfinished function": '\n\n\ndef next_problem(x):\n    """unfinished',
    "an unfinished call": "\n\n\ntotal = foo(",
    "an unfinished class": "\n\nclass Foo(",
    "a signature": "\n\ndef next_problem(x):",
    "an unfinished name": "\n\ndef next_prob",
    "prints": "\n\nprint(area([1.0]))\nprint(1 / 0)\n",
    "tests that fail": "\n\nassert area([1.0]) == 7, 'wrong'\n",
    "a check": "\n\ndef check(candidate):\n    assert candidate([]) == 1\n\ncheck(area)\n",
    "a main part": "\n\nif __name__ == '__main__':\n    main()\nelse:\n    raise SystemExit(3)\n",
    "prose": "\n\nThis function doesn't loop (much), it's a sum:\nimport this into your code, from the top\n",
    "a closing fence": "\n```\n\nThis function adds up.\n",
    "a fence with an example": "\n\n### Example\n\n```python\nprint(area([1.0]))\n```\n",
    "a fence with a wrong function": "\n\n```python\ndef area(xs):\n    return 0.0\n```\n",
    "the function again, wrong": "\n\n\ndef area(xs):\n    return 0.0\n",
    "the function again, cut": "\n\n\n" + PREFIX + "    total = 0.0\n    for x in",
    "the name bound again": "\n\narea = None\nfrom os import path as area\n",
    "names that the body has as its own": "\n\nxs = input()\ntotal = 1 / 0\nx = open('/none')\nfor x in 5:\n    pass\n",
    "a prompt's import again": "\n\nimport math.nothing\nfrom nowhere import List\n",
    "a helper of the prompt again": "\n\ndef helper(x):\n    return 7\n",
    "an import of something": "\n\nimport nowhere\nfrom nothing import *\n",
    "a decorator above nothing": "\n\n@property\n",
    "broken code": "\n\n)))\n]\nfor (\n\nclass x\n",
    "an expression": "\n\n1 / 0\narea(None)\nraise SystemExit\n",
    "a question": '\n\nQ: What does it\'s """docstring say?\nA: Nothing.\n',
    "a flood": "\n\n" + "def f(x):\n    return f(x)\n\n" * 50,
    "the function again, behind a form feed": "\n\x0cdef area(xs):\n    return 0.0\n",
    "surrogates": "\n\n\ud800\n",
    "NUL": "\n\n\x00\n",
}
#: Below a fence, the last fence counts, as in a chat; other texts end with what isn't code already.
_OPEN = {name for name in KEPT if "fence" in name or "token" in name} | {
    "a body after prose",
    "a future import",
}


@pytest.mark.parametrize("answer", KEPT.values(), ids=KEPT.keys())
def test_an_answer_of_any_form_runs(answer: str) -> None:
    assert run(answer) == 5.0


@pytest.mark.parametrize("below", BELOW.values(), ids=BELOW.keys())
def test_what_a_model_adds_below_its_function_is_dropped(below: str) -> None:
    for name, answer in KEPT.items():
        if name not in _OPEN:
            assert run(answer.rstrip() + below) == 5.0, name


@pytest.mark.parametrize("below", BELOW.values(), ids=BELOW.keys())
@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_make_no_difference(below: str, end: str) -> None:
    assert run((BODY + below).replace("\n", end)) == 5.0


USED = {
    "a helper": ("return square_sum(xs)", "def square_sum(xs):\n    return sum(x * x for x in xs)"),
    "a helper of a helper": (
        "return square_sum(xs)",
        "def square(x):\n    return x * x\n\n\ndef square_sum(xs):\n    return sum(map(square, xs))",
    ),
    "an import": ("return fsum(x * x for x in xs)", "from math import fsum"),
    "an import over lines": ("return fsum(x * x for x in xs)", "from math import (\n    ceil,\n    fsum,\n)"),
    "an import by another name": ("return m.fsum(x * x for x in xs)", "import math as m, os.path"),
    "an import of a package": ("return float(os.path.sep == '/') + 4", "import os.path"),
    "a constant": ("return sum(x**POWER for x in xs)", "POWER = 2"),
    "a constant with a type": ("return sum(x**POWER for x in xs)", "POWER: int = 2"),
    "two constants": ("return sum(x**POWER for x in xs)", "(NOTHING, POWER) = 0, 2"),
    "a constant made by a helper": (
        "return sum(x**POWER for x in xs)",
        "def two():\n    return 2\n\n\nPOWER = two()",
    ),
    "a class": (
        "return Adder().add(xs)",
        "class Adder:\n    def add(self, xs):\n        return sum(x * x for x in xs)",
    ),
    "a decorated helper": (
        "return sum(square(x) for x in xs)",
        "import functools\n\n\n@functools.lru_cache(\n    None\n)\ndef square(x):\n    return x * x",
    ),
    "a helper in an f-string": ('return float(f"{five()}.0")', "def five():\n    return 5"),
    "a helper given by keyword": ("return float(max([5], key=size))", "def size(x):\n    return x"),
    "a helper given by its own keyword": (
        "return float(max(\n        [5],\n        key=key,\n    ))",
        "def key(x):\n    return x",
    ),
    "a global": ("global count\n    count += 1\n    return count", "count = 4.0"),
    "the first of two": (
        "return five()",
        "def five():\n    return 5.0\n\n\ndef five():\n    return 7.0",
    ),
    "a coroutine": (
        "import asyncio\n    return asyncio.run(five())",
        "async def five():\n    return 5.0",
    ),
}


@pytest.mark.parametrize(("body", "below"), USED.values(), ids=USED.keys())
def test_what_the_function_uses_of_the_text_below_it_is_kept(body: str, below: str) -> None:
    further = "\n\n\nprint(1 / 0)\n\n\ndef next_problem(x):\n    return ("
    for indent in ("    ", ""):
        answer = indent + body if indent else textwrap.dedent("    " + body)
        if indent or "global" not in body:
            assert run(f"{answer}\n\n\n{below}{further}") == 5.0
        assert run(f"def area(xs):\n    {body}\n\n\n{below}{further}") == 5.0
        assert run(f"{below}\n\n\ndef area(xs):\n    {body}{further}") in (5.0, 7.0)


BROKEN = {
    "an unfinished call": "def five():\n    return (",
    "an unfinished docstring": 'def five():\n    """Five',
    "a signature": "def five():",
    "a call that is never closed": "five = max(\n\nOr so.",
}


@pytest.mark.parametrize("below", BROKEN.values(), ids=BROKEN.keys())
def test_a_definition_that_the_text_leaves_unfinished_is_dropped(below: str) -> None:
    body = "    try:\n        return five()\n    except NameError:\n        return 5.0\n"
    assert run(f"{body}\n\n{below}") == 5.0
    assert run(f"def area(xs):\n{body}\n\n{below}") == 5.0


FIVE = "def five():\n    return 5.0\n"


@pytest.mark.parametrize(
    "between", ["It's so (for me:", "x = [1,", "x = foo(\n", "x = {'a': (", "y = 1 + \\"]
)
def test_what_is_never_closed_hides_no_helper_below_it(between: str) -> None:
    assert run(f"    return five()\n\n{between}\n\n{FIVE}\n\nprint(1 / 0)") == 5.0


def test_prose_hides_no_constant_below_it() -> None:
    assert run("    return FIVE\n\nSo (for me:\nFIVE = 5.0\n") == 5.0


def test_names_of_the_functions_own_need_nothing_of_the_text_below_it() -> None:
    body = (
        "    if (own := len(xs)) and (lambda bare: bare)(own):\n        with open('/dev/null') as file:\n            file.read()\n"
        "    total = other = 0\n    for first, (second, third) in []:\n        total += first + second + third\n"
        "    def inner(given, *more):\n        return given, more\n    import math as mathematics\n"
        "    return 5.0 + total * mathematics.pi * len(inner(other)) * own\n"
    )
    names = [
        "own",
        "bare",
        "file",
        "total",
        "first",
        "second",
        "third",
        "inner",
        "given",
        "more",
        "mathematics",
        "xs",
    ]
    junk = "\n\n".join(f"{name} = 1 / 0" for name in names)
    assert run(f"{body}\n\n{junk}") == 5.0
    assert run(f"def area(xs):\n{body}\n\n{junk}") == 5.0


def test_a_body_without_indentation_ends_at_its_return() -> None:
    assert run(textwrap.dedent(BODY) + "\n\nreturn (\n") == 5.0


def test_a_recursion_needs_no_second_definition() -> None:
    body = "    return sum(x * x for x in xs) if len(xs) == 1 else area(xs[:1]) + area(xs[1:])\n"
    for again in ("area = None", "def area(xs):\n    return 0.0", "import nowhere as area"):
        assert run(f"{body}\n\n{again}\n") == run(f"def area(xs):\n{body}\n\n{again}\n") == 5.0


def test_an_end_token_in_a_string_ends_nothing() -> None:
    body = "    return 5.0 if len('<|im_end|>') == 10 else 0.0"
    assert run(body) == run(body + "<|im_end|>\nOr not.") == 5.0
    assert code(AREA, body + "  # it's so</s>\nOr not.") == body + "  # it's so"
    assert code(BUILTIN[0], "x = 1\nIt's so<|im_end|>\n<|im_start|>user") == "x = 1\nIt's so"


def test_what_it_does_not_use_is_dropped() -> None:
    answer = BODY + "\n\ndef unused():\n    pass\n\n\nimport os\nOTHER = 1\n"
    assert code(AREA, answer).strip("\n") == BODY.strip("\n")


def test_the_text_of_a_body_alone_is_kept_as_it_is() -> None:
    for environment in HUMANEVAL:
        reference = environment.reference or ""
        body = reference[len(environment.prefix) :]
        assert code(environment, body) == body
        assert environment.complete(code(environment, body)) == reference


def test_text_before_the_closing_fence_is_kept_as_it_is() -> None:
    for environment in BUILTIN:
        reference = environment.reference or ""
        assert code(environment, reference) == reference
        assert code(environment, f"{reference}\n```\n\nThat is all. ```\n").strip("\n") == reference.strip(
            "\n"
        )
        assert code(environment, f"Sure.\n\n```python\n{reference}\n```\n").strip("\n") == reference.strip(
            "\n"
        )
        assert code(environment, f"```\n{reference}\n```\n").strip("\n") == reference.strip("\n")


def test_a_fence_in_a_docstring_closes_nothing() -> None:
    answer = 'def area(xs):\n    """Add.\n\n```python\narea([])\n```\n    """\n    return 5.0\n'
    assert code(BUILTIN[0], answer + "```\nDone.") == answer
    assert run(answer + "```\nDone.") == 5.0


# Whatever it is, something comes back.

BLANK = ["", " ", "\n", "\r\n", "\t\n \x0c\n", "\n" * 1000]


@pytest.mark.parametrize("text", BLANK)
def test_a_blank_text_stays_blank(text: str) -> None:
    for environment in (AREA, HUMANEVAL[0], BUILTIN[0]):
        assert environment.complete(code(environment, text)).strip() == ""


UNITS = [
    *(
        "(",
        "[a",
        "]\n",
        "'''\n",
        "a'",
        "x" + " " * 50,
        "x, ",
        "x=",
        "for ",
        "for x in ",
        "def f(",
        "def f(\n",
    ),
    *(
        "def f(x):\n    return x\n",
        "@a\n",
        "import (\n",
        "import a\n",
        "import a,",
        "from x import (",
        "else:\n",
    ),
    *(
        "if x:\n    y\nelse:\n    z\n",
        "case x:\n",
        "lambda ",
        "lambda x:",
        "global x,",
        "a :=",
        "as (",
        "a = b\n",
    ),
    *(
        "return x\n",
        "this is prose\n",
        "```\n",
        "```python\nx = 1\n",
        "~~~\n",
        "<|im_end|>",
        "<eos> ",
        "</s>\n",
        "<|",
    ),
    *(
        "<think>\n",
        "</think>\n",
        "f'{",
        'f"{a}" ',
        "\\",
        "\\\n",
        "x\r",
        "\f",
        "\t",
        " ",
        "\n",
        "\0",
        "\ud800",
        "a:",
    ),
    *(
        "a.b",
        "a.",
        "#",
        "# a\n",
        '"',
        "  if x:\n",
        "    x = 1\n",
        "ünï = ",
        "a",
        "9",
        ",",
        ";",
        "print(x)\n",
        "[(",
    ),
]


@pytest.mark.parametrize("begins", ["", "    return x\n", "def area(a):\n    return x\n", "x   ", "import a"])
def test_a_text_of_one_thing_over_and_over_is_read(begins: str) -> None:
    for unit in UNITS:
        text = begins + unit * (4_000 // len(unit)) + "!"
        for environment in (AREA, BUILTIN[0]):
            assert isinstance(environment.complete(code(environment, text)), str)


LONG = [" ", "\t", "x, ", "a", "a.", "def f(", "for ", "lambda ", "f'{", "(", "[a", "'", '"""\n', "``", "<|"]


@pytest.mark.parametrize("unit", [*LONG, "return x\n" * 50, "def f(x):\n    return f(x)\n" * 50])
def test_a_text_without_end_is_read_in_linear_time(unit: str) -> None:
    # Anything worse than linear would take hours.
    text = "    return x\n" + unit * (400_000 // len(unit)) + "!"
    assert code(AREA, text).startswith("    return x\n")


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([*UNITS, *KEPT.values(), *BELOW.values(), BODY, WHOLE]), max_size=8),
    st.text(max_size=40),
)
def test_no_text_raises(parts: list[str], text: str) -> None:
    for environment in (AREA, HUMANEVAL[38], BUILTIN[0]):
        for said in (text.join(parts), "".join(parts) + text):
            assert isinstance(environment.complete(code(environment, said)), str)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(HUMANEVAL),
    st.lists(st.sampled_from(sorted(BELOW.values())), max_size=5),
    st.text(max_size=30),
)
def test_whatever_follows_a_reference_the_reference_is_kept(
    environment: Environment, below: list[str], text: str
) -> None:
    reference = environment.reference or ""
    body = reference[len(environment.prefix) :]
    kept = code(environment, f"{body.rstrip()}\n\n\nHere's more: {text!a}" + "\n\n".join(below))
    assert kept.startswith(body.rstrip())
    compile(environment.complete(kept), "solution.py", "exec")


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(BUILTIN), st.text(max_size=200))
def test_whatever_follows_the_closing_fence_the_reference_is_kept(
    environment: Environment, text: str
) -> None:
    reference = (environment.reference or "").rstrip()
    assert code(environment, f"{reference}\n```\n{text}").rstrip() == reference


# The judge's word.

Form = Callable[[str, str, str], str]
#: Of the reference's body, all of it, and the entry point's name.
FORMS: dict[str, Form] = {
    "the body alone": lambda body, whole, name: body,
    "and the next problem": lambda body, whole, name: f'{body}\n\n\ndef next_problem(x):\n    """unfinished',
    "and a print": lambda body, whole, name: f"{body}\n\nprint({name}(1 / 0))",
    "and prose": lambda body, whole, name: (
        f"{body}\n\nThis works: it's a function (of a kind).\nimport it, then"
    ),
    "and a closing fence": lambda body, whole, name: (
        f"{body}```\n\nIt's done.\n\n```python\nprint({name}())\n```"
    ),
    "and itself, cut": lambda body, whole, name: f"{body}\n\n{whole[:-20]}",
    "without its first indentation": lambda body, whole, name: f"{body.strip()}\n\n\nprint({name}(",
    "without indentation": lambda body, whole, name: (
        f"{textwrap.dedent(body)}\n\ndef next_problem(x):\n    re"
    ),
    "whole, in a fence": lambda body, whole, name: f"Here it is:\n\n```python\n{whole}\n```\nIt works.",
    "whole, twice": lambda body, whole, name: f"{whole}\n\n{whole}",
    "with an end token": lambda body, whole, name: f"{body.rstrip()}<|im_end|>\n<|im_start|>user\nIt's ok",
}


def scores(environments: Sequence[Environment], texts: Sequence[str]) -> list[float | None]:
    codes = [code(environment, text) for environment, text in zip(environments, texts, strict=True)]
    with DeepGym() as gym:
        results = gym.run_batch(list(environments), codes).results
    return [result.score if result.has_verdict else None for result in results]


@pytest.mark.local_sandbox
def test_every_humaneval_reference_passes_in_any_form() -> None:
    judged: dict[tuple[str, str], tuple[Environment, str, str]] = {}
    for environment in HUMANEVAL:
        reference = environment.reference or ""
        body = reference[len(environment.prefix) :]
        for name, form in FORMS.items():
            text = form(body, reference, environment.entry_point or "")
            # Most forms come down to the same code, which needs to run but once.
            run_as = environment.complete(code(environment, text)).strip()
            judged.setdefault((environment.name, run_as), (environment, text, name))
    assert len(judged) < 164 * len(FORMS) / 2
    got = scores([one[0] for one in judged.values()], [one[1] for one in judged.values()])
    assert {one[2] for one, score in zip(judged.values(), got, strict=True) if score != 1.0} == set()
    assert len({name for name, _ in judged}) == 164


@pytest.mark.local_sandbox
def test_every_built_in_reference_passes_with_what_follows_its_fence() -> None:
    texts = [f"{environment.reference}\n```\n\nprint(1 / 0)\n" for environment in BUILTIN]
    assert scores(BUILTIN, texts) == [1.0] * len(BUILTIN)


@pytest.mark.local_sandbox
def test_an_empty_text_earns_nothing() -> None:
    assert scores(HUMANEVAL, [""] * 164) == [0.0] * 164
