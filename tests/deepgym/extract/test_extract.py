from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgym.extract import MAX_CHARS, MAX_LINES, completion_text, extract_code


def said(*parts: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(parts)}


# What it shows: completion -> code.
TABLE: dict[str, tuple[object, str]] = {
    # no fence
    "plain text runs as it is": ("x = 1\n", "x = 1\n"),
    "an indented body keeps its indentation": ("    return x\n", "    return x\n"),
    "plain text keeps its line ends": ("x = 1\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
    "inline code is no fence": ("use ```x``` here", "use ```x``` here"),
    "nothing is an empty answer": (None, ""),
    "empty text is an empty answer": ("", ""),
    # which block
    "a fence is taken out of prose": ("Here:\n```python\nx = 1\n```\nDone.", "x = 1\n"),
    "the last block counts": ("```\na\n```\nthen\n```\nb\n```\n", "b\n"),
    "blank blocks don't count": ("```\na\n```\n```\n\n  \n```\n", "a\n"),
    "only blank blocks leave the text": ("```\n```\n", "```\n```\n"),
    "blank lines in a block stay": ("```\na\n\n\nb\n```", "a\n\n\nb\n"),
    "an info string is no code": ('```python title="a.py" {1,2}\nx\n```', "x\n"),
    "a space before the info string": ("``` python\nx\n```", "x\n"),
    # how fences open and close
    "tildes": ("~~~py\nx = 1\n~~~\n", "x = 1\n"),
    "tildes hold backticks": ("~~~\n```\nx\n```\n~~~\n", "```\nx\n```\n"),
    "backticks hold tildes": ("```\n~~~\nx\n~~~\n```\n", "~~~\nx\n~~~\n"),
    "a longer fence holds a shorter one": ("````md\n```py\nx\n```\n````\n", "```py\nx\n```\n"),
    "a longer fence closes a shorter one": ("```\nx\n`````\nprose", "x\n"),
    "a fence in a docstring doesn't close when it is indented": (
        '```python\ndef f():\n    """E.g.\n\n    ```\n    f()\n    ```\n    """\n    return 1\n```\n',
        'def f():\n    """E.g.\n\n    ```\n    f()\n    ```\n    """\n    return 1\n',
    ),
    "a close with an info string closes nothing": ("```\na\n``` x\nb\n```", "a\n``` x\nb\n"),
    "a last fence may stay open": ("Code:\n```python\nx = 1\ny = 2", "x = 1\ny = 2"),
    "an open fence ends with its list item": ("- ```\n  x\n\nprose", "x\n\n"),
    "an open last fence without content yields to the one before": ("```\na\n```\n```python\n", "a\n"),
    # indentation and containers
    "a fence indented by up to three loses that indentation": ("  ```\n  x\n    y\n  ```", "x\n  y\n"),
    "four spaces make no fence": ("Text:\n\n    ```\n    x\n    ```\n", "Text:\n\n    ```\n    x\n    ```\n"),
    "a list item": ("1. Do it:\n\n   ```py\n   x\n     y\n   ```\n2. Done", "x\n  y\n"),
    "a nested list": ("- a\n  - b\n    ```\n    x\n    ```\n", "x\n"),
    "a fence on the item's own line": ("- ```\n  x\n  ```\n", "x\n"),
    "a block quote": ("> ```\n> x\n>   y\n> ```\n", "x\n  y\n"),
    "a list in a quote": ("> - a\n>   ```\n>   x\n>   ```\n", "x\n"),
    "a tab-indented item": ("-\ta\n\n\t```\n\tx\n\t```\n", "x\n"),
    "a tag line before the fence": ("<answer>\n```python\nx\n```\n</answer>", "x\n"),
    "an HTML comment before the fence": ("<!-- a\n```\nx\n```\n-->", "x\n"),
    "a reference definition before the fence": ("[a]: b 'c\n```\nx\n```\n", "x\n"),
    # line ends and odd characters
    "CRLF": ("Hi\r\n```python\r\nx = 1\r\ny = 2\r\n```\r\n", "x = 1\ny = 2\n"),
    "lone CR": ("```\rx\r```\r", "x\n"),
    "form feeds and Unicode separators don't end lines": (
        "```\nx = 'a\x0c\u2028b'\n```",
        "x = 'a\x0c\u2028b'\n",
    ),
    "lone surrogates and NUL pass": ("```\nx = '\ud800\x00'\n```", "x = '\ud800\x00'\n"),
    # reasoning
    "reasoning goes": ("<think>\n```\ndraft\n```\n</think>\n```\nx\n```", "x\n"),
    "reasoning goes before plain text": ("<think>hm</think>x = 1", "x = 1"),
    "a draft left open in reasoning": ("<think>\n```python\ndraft\n</think>\n\n```python\nx\n```\n", "x\n"),
    "code in reasoning alone is no answer": ("<think>\n```\ndraft\n```\n</think>", ""),
    "a closing tag alone ends reasoning": ("so\n```\ndraft\n</think>\n```\nx\n```", "x\n"),
    "a fence right behind the tag": ("so</think>```python\nx\n```", "x\n"),
    "several blocks of reasoning": ("<think>a</think><think>\n```\nb</think>\n```\nx\n```", "x\n"),
    "reasoning between blocks": ("```\nx\n```\n<think>\n```\ny\n```\n</think>\nDone.", "x\n"),
    "reasoning left open hides nothing": ("<think>\nso\n```\nx\n```", "x\n"),
    "an open tag before a fence": ("<think>```\nx\n```", "x\n"),
    "other names, other case": ("<Thinking>a</thinking>\n<reasoning>b</reasoning>\nx = 1", "\n\nx = 1"),
    "another tag in reasoning doesn't end it": ("<think>a </thought> b</think>x = 1", "x = 1"),
    "tags in quotes are code": (
        '```python\na = s.split("</think>")[-1]\nb = "<think>"\n```',
        'a = s.split("</think>")[-1]\nb = "<think>"\n',
    ),
    "a pattern with tags is code": (
        "x = re.sub(r'<think>.*?</think>', '', s)\n",
        "x = re.sub(r'<think>.*?</think>', '', s)\n",
    ),
    "a docstring with tags is code": (
        '"""Drop <think>..</think> parts."""\n',
        '"""Drop <think>..</think> parts."""\n',
    ),
    # end tokens
    "an end token behind plain text goes": ("x = 1<|im_end|>\n", "x = 1"),
    "an end token behind a fence goes": ("```\nx\n```<|im_end|></s>", "x\n"),
    "a fullwidth end token": ("x = 1<\uff5cend\u2581of\u2581sentence\uff5c>", "x = 1"),
    "an end token in the middle stays": ("x = '</s>'\ny = 1", "x = '</s>'\ny = 1"),
    # conversations
    "the assistant's last message": (
        [
            {"role": "user", "content": "```\nq\n```"},
            {"role": "assistant", "content": "```\na\n```"},
            {"role": "assistant", "content": "```\nb\n```"},
            {"role": "user", "content": "```\nc\n```"},
        ],
        "b\n",
    ),
    "without roles the last message": ([{"content": "a"}, {"content": "b"}], "b"),
    "without an assistant there is no answer": ([{"role": "user", "content": "x = 1"}], ""),
    "no message": ([], ""),
    "no content": ([{"role": "assistant", "content": None, "tool_calls": []}], ""),
    "parts are joined": (
        [
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "```\nx"}, {"type": "text", "text": "1\n```"}],
            }
        ],
        "x1\n",
    ),
    "parts of other kinds are left out": (
        [
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "y"}, {"type": "text", "text": "x"}],
            }
        ],
        "x",
    ),
    "a message alone": ({"role": "assistant", "content": "x"}, "x"),
    "a tuple of messages": (({"role": "assistant", "content": ("x", "y")},), "xy"),
}


@pytest.mark.parametrize(("completion", "code"), TABLE.values(), ids=TABLE.keys())
def test_the_table(completion: object, code: str) -> None:
    assert extract_code(completion) == code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("completion", "named"),
    [
        (7, "int"),
        (b"x", "bytes"),
        (["x"], "message"),
        ([{"role": "assistant", "content": 7}], "content"),
        ([{"role": "assistant", "content": [7]}], "part"),
    ],
)
def test_a_wrong_type_says_what_was_expected(completion: object, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        extract_code(completion)  # type: ignore[arg-type]


def test_markdown_is_parsed_only_where_a_fence_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepgym.extract.last_code_block", pytest.fail)
    assert extract_code("def f():\n    return '`'\n").startswith("def f")


HOSTILE = {
    "backticks": "`" * 3_000_000,
    "quotes": "> " * 1_000_000 + "```\nx",
    "lists": "- " * 1_000_000 + "```\nx",
    "deeper lists": "\n".join(" " * depth + "- a" for depth in range(1500)) + "\n```\nx",
    "lazy paragraphs": ">" * 19 + "a\n" * 2_000_000 + "```",
    "list of lists": ("- " * 30 + "\n") * 50_000 + "```",
    "fences": "```\n" * 500_000,
    "reasoning tags": "<think></think>" * 100_000 + "```",
    "open tags": "<think>" * 300_000 + "```",
    "closing tags": "</think>" * 300_000 + "```",
    "tags on a line": "a <think></think>" * 100_000 + "```",
    "blanks before a tag": " " * 3_000_000 + "```",
    "end tokens": "```" + "</s>" * 500_000,
    "bars": "```" + "<|" * 500_000,
    "labels": "[a]: b\n" * 200_000 + "```",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_text_yields_text_no_longer_than_itself(text: str) -> None:
    code = extract_code(text)
    assert isinstance(code, str)
    assert len(code) <= len(text)


@pytest.mark.parametrize("filler", ["words\n" * (MAX_LINES + 7), "w" * (MAX_CHARS + 7) + "\n"])
def test_the_last_block_of_a_very_long_text_is_found(filler: str) -> None:
    assert extract_code(f"```\n{filler}```\nSo:\n```python\nx = 1\n```\n") == "x = 1\n"


def test_a_text_cut_inside_a_block_starts_at_a_fence_that_can_only_open() -> None:
    text = "```python\n" + "a = 1\n" * (MAX_LINES - 5) + "```\nfinally\n~~~py\nx = 1\n~~~\n"
    assert extract_code(text) == "x = 1\n"


def test_a_stack_with_no_room_left_loses_the_fence_but_raises_nothing() -> None:
    def at_the_bottom(depth: int) -> str:
        return at_the_bottom(depth - 1) if depth else extract_code("> " * 18 + "```\nx\n")

    extract_code("```\nwarm\n```")
    frames = 0
    frame = sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back  # type: ignore[assignment]
    assert isinstance(at_the_bottom(sys.getrecursionlimit() - frames - 20), str)


markdownish = st.text(st.sampled_from("`~> -1.\n\t x<>/think|\r"), max_size=80)


@given(markdownish | st.text(max_size=40))
def test_any_text_yields_text(text: str) -> None:
    assert isinstance(extract_code(text), str)


@given(st.lists(st.text(st.characters(exclude_characters="`\r\n", codec="utf-8"), max_size=20), min_size=1))
def test_what_is_fenced_comes_back_as_it_was(lines: list[str]) -> None:
    code = "\n".join(lines) + "\n"
    if code.strip() and "think" not in code:
        assert extract_code(f"Here it is:\n\n```python\n{code}```\n\nDone.") == code


@pytest.mark.parametrize(
    "completion", [[{"from": "gpt", "value": "x"}], [{"role": "user"}, {}], {"value": "x"}]
)
def test_a_message_in_another_form_is_no_empty_answer(completion: Any) -> None:
    with pytest.raises(TypeError, match="a message is a mapping with 'role' and 'content', and one has"):
        completion_text(completion)
