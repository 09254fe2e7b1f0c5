"""Environments as documents: what goes into a sample log, and what is graded of a model's text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgym.environments import Environment, load_environment, load_suite
from deepgym.environments.prompts import prompt_text
from deepgym_lmeval.documents import code_of, rows

FIELDS = {"task_id", "prompt", "question", "stop", "env_digest"}
SUITES = ("builtin", "humaneval")


@pytest.fixture(scope="module")
def environments() -> list[Environment]:
    return [env for suite in SUITES for env in load_suite(suite)]


def test_each_environment_is_one_document_in_order(environments: list[Environment]) -> None:
    found = rows(environments)
    assert [row["task_id"] for row in found] == [env.name for env in environments]
    assert [row["env_digest"] for row in found] == [env.digest for env in environments]
    assert [row["question"] for row in found] == [prompt_text(env) for env in environments]
    assert {frozenset(row) for row in found} == {frozenset(FIELDS)}


def test_a_document_can_be_written_as_json(environments: list[Environment]) -> None:
    assert json.loads(json.dumps(rows(environments), allow_nan=False)) == rows(environments)


def test_a_document_shows_neither_the_reference_nor_the_verifier(environments: list[Environment]) -> None:
    for env, row in zip(environments, rows(environments), strict=True):
        shown = "\n".join([row["prompt"], row["question"], *row["stop"]])
        body = (env.reference or "")[len(env.prefix) :].strip()
        assert len(body) < 30 or body not in shown
        assert "check(candidate)" not in shown
        assert "deepgym_verify" not in shown


def test_a_task_of_bare_code_is_its_own_prompt() -> None:
    for env, row in zip(load_suite("humaneval"), rows(load_suite("humaneval").environments), strict=True):
        assert row["prompt"] == env.prefix
        assert row["prompt"].endswith("\n")
        assert len(row["stop"]) <= 4


def test_any_other_task_opens_the_fence_that_it_stops_at() -> None:
    env = load_environment("two_sum")
    (row,) = rows([env])
    assert row["prompt"].startswith(env.task.rstrip())
    assert row["prompt"].endswith("```python\n")
    assert row["stop"] == ["\n```"]


def test_no_stop_sequence_is_in_a_prompts_end_or_a_reference(environments: list[Environment]) -> None:
    for env, row in zip(environments, rows(environments), strict=True):
        body = (env.reference or "")[len(env.prefix) :]
        assert not [stop for stop in row["stop"] if stop in body], env.name


def test_the_reference_is_taken_as_it_is_from_a_chat_and_from_a_completion(
    environments: list[Environment],
) -> None:
    for env in environments:
        reference = env.reference or ""
        assert code_of(env, f"Sure.\n```python\n{reference}\n```\nDone.", True).strip() == reference.strip()
        if env.prefix and env.prefix.strip() == env.task.strip():
            said = reference[len(env.prefix) :]
            whole = env.complete(code_of(env, said, False))
            assert whole.split() == reference.split(), env.name
        else:
            assert code_of(env, reference + "\n```\nThat is all.", False).strip() == reference.strip(), (
                env.name
            )


def test_the_last_fence_of_a_chat_counts() -> None:
    env = load_environment("two_sum")
    assert (
        code_of(env, "```python\nfirst = 1\n```\nNo:\n```python\nsecond = 2\n```", True).strip()
        == "second = 2"
    )


def test_reasoning_is_no_answer() -> None:
    env = load_environment("two_sum")
    text = "<think>\n```python\nwrong = 1\n```\n</think>\n```python\nright = 1\n```"
    assert code_of(env, text, True).strip() == "right = 1"


@pytest.mark.parametrize("chat", [False, True])
def test_a_blank_text_is_a_blank_answer(chat: bool) -> None:
    for name in ("two_sum", "humaneval/0", "word_counts"):
        env = load_environment(name)
        for text in ("", " ", "\n\n"):
            assert not env.complete(code_of(env, text, chat)).strip()


PIECES = [
    "```",
    "```python\n",
    "\n",
    "    return 1\n",
    "def f():\n",
    "'''",
    '"""',
    "\x00",
    "\r",
    "\\",
    "(",
    "# x\n",
]


@settings(max_examples=200, deadline=None)
@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.booleans())
def test_no_text_raises(text: str, chat: bool) -> None:
    for name in ("two_sum", "humaneval/0"):
        env = load_environment(name)
        assert isinstance(env.complete(code_of(env, text, chat)), str)
