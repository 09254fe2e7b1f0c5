"""Real evaluations with answers whose worth is known: the numbers must be exactly theirs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from deepgym.environments import Environment, list_environments, load_environment
from deepgym.environments.prompts import prompt_text
from deepgym_lmeval.graded import Graded

from .answers import Answers, Says, canonical, empty, truncated, wrong
from .harness import Run, arguments, command, evaluate, names, written
from .server import Asked, loopback

pytestmark = pytest.mark.local_sandbox

MODES = pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
EVERY = {"deepgym_verdict": 1.0, "deepgym_verdict_stderr": 0.0}
ALL_RIGHT = {
    "deepgym_score": 1.0,
    "deepgym_score_stderr": 0.0,
    "deepgym_pass": 1.0,
    "deepgym_pass_stderr": 0.0,
    **EVERY,
}
ALL_WRONG = {
    "deepgym_score": 0.0,
    "deepgym_score_stderr": 0.0,
    "deepgym_pass": 0.0,
    "deepgym_pass_stderr": 0.0,
    **EVERY,
}


def counts(judged: int, none: int = 0) -> dict[str, Any]:
    """Sums, which have no standard error."""
    return {
        "deepgym_judged": judged,
        "deepgym_judged_stderr": "N/A",
        "deepgym_no_verdict": none,
        "deepgym_no_verdict_stderr": "N/A",
    }


def all_of_humaneval(says: Says, known: Any, chat: bool) -> tuple[Run, list[Asked]]:
    with loopback(Answers(says, known)) as server:
        return evaluate(server, "deepgym_humaneval", chat=chat), server.asked


@pytest.fixture(scope="module")
def right(known: tuple[Environment, ...]) -> dict[bool, tuple[Run, list[Asked]]]:
    return {chat: all_of_humaneval(canonical, known, chat) for chat in (False, True)}


@MODES
def test_the_canonical_answers_to_humaneval_score_exactly_1(right: Any, chat: bool) -> None:
    run, asked = right[chat]
    assert run.values("deepgym_humaneval") == {**ALL_RIGHT, **counts(164)}
    assert len(asked) == 164
    assert run.everything["n-samples"]["deepgym_humaneval"] == {"original": 164, "effective": 164}
    assert run.judged("deepgym_humaneval") == {"runs": 164, "judged": 164, "no_verdict": {}}


@MODES
@pytest.mark.parametrize("says", [wrong, empty, truncated])
def test_bad_answers_to_humaneval_are_judged_and_score_exactly_0(known: Any, says: Says, chat: bool) -> None:
    run, _ = all_of_humaneval(says, known, chat)
    assert run.values("deepgym_humaneval") == {**ALL_WRONG, **counts(164)}


@MODES
def test_a_mix_of_answers_scores_exactly_the_share_of_right_ones(
    known: Any, humaneval: tuple[Environment, ...], chat: bool
) -> None:
    kinds = (canonical, wrong, empty, truncated, canonical)
    says = {env.name: kinds[index % 5] for index, env in enumerate(humaneval)}
    passed = sum(kind is canonical for kind in says.values())
    run, _ = all_of_humaneval(lambda env, chat: says[env.name](env, chat), known, chat)
    values = run.values("deepgym_humaneval")
    share = passed / 164
    error = math.sqrt(share * (1 - share) / 163)
    assert passed == 65
    assert values == {
        **EVERY,
        **counts(164),
        "deepgym_score": share,
        "deepgym_score_stderr": pytest.approx(error),
        "deepgym_pass": share,
        "deepgym_pass_stderr": pytest.approx(error),
    }
    by_name = {sample["doc"]["task_id"]: sample for sample in run.samples("deepgym_humaneval")}
    assert {name: sample["deepgym_pass"] for name, sample in by_name.items()} == {
        name: float(kind is canonical) for name, kind in says.items()
    }


def test_a_base_model_is_sent_the_bare_code_to_continue(
    right: Any, humaneval: tuple[Environment, ...]
) -> None:
    _, asked = right[False]
    assert sorted(one.prompt for one in asked) == sorted(env.prefix for env in humaneval)
    for one in asked:
        assert one.path == "/v1/completions"
        assert (one.body["max_tokens"], one.body["temperature"]) == (1536, 0)
        assert 1 <= len(one.stops) <= 4
        assert not any(one.prompt.startswith(stop) or "\n    x = 1\n".find(stop) >= 0 for stop in one.stops)


def test_no_stop_sequence_stands_in_a_reference(right: Any, humaneval: tuple[Environment, ...]) -> None:
    _, asked = right[False]
    stops = {stop for one in asked for stop in one.stops}
    bodies = [(env.reference or "")[len(env.prefix) :] for env in humaneval]
    assert not [stop for stop in stops if any(stop in body for body in bodies)]


def test_a_chat_model_is_asked_in_one_message_and_stopped_by_nothing(
    right: Any, humaneval: tuple[Environment, ...]
) -> None:
    _, asked = right[True]
    messages = [one.body["messages"] for one in asked]
    assert {len(one) for one in messages} == {1}
    assert {one[0]["role"] for one in messages} == {"user"}
    assert sorted(one[0]["content"] for one in messages) == sorted(prompt_text(env) for env in humaneval)
    assert {tuple(one.stops) for one in asked} == {()}
    assert {(one.path, one.body["max_tokens"], one.body["temperature"]) for one in asked} == {
        ("/v1/chat/completions", 1536, 0)
    }


@MODES
def test_the_references_of_all_built_in_environments_score_exactly_1(known: Any, chat: bool) -> None:
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym_builtin", chat=chat)
    assert run.values("deepgym_builtin") == {**ALL_RIGHT, **counts(23)}
    assert sorted(names(run, "deepgym_builtin")) == list_environments()


def test_a_task_with_an_opened_fence_is_stopped_at_the_closing_one(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym_two_sum")
    (asked,) = server.asked
    assert asked.prompt.endswith("```python\n")
    assert asked.stops == ["\n```"]
    (sample,) = run.samples("deepgym_two_sum")
    assert sample["resps"] == [[load_environment("two_sum").reference]]


def test_partial_credit_counts_in_the_score_and_not_in_the_share_that_passed(known: Any) -> None:
    with loopback(Answers(empty, known)) as server:
        values = evaluate(server, "deepgym_builtin").values("deepgym_builtin")
    # One of its twenty cases has no input, and wants no output.
    assert values["deepgym_score"] == pytest.approx(0.05 / 23)
    assert (values["deepgym_pass"], values["deepgym_verdict"]) == (0.0, 1.0)


@MODES
def test_a_sample_holds_neither_the_reference_nor_a_test(right: Any, known: Any, chat: bool) -> None:
    run, _ = right[chat]
    by_name = {env.name: env for env in known}
    for sample in run.samples("deepgym_humaneval"):
        env = by_name[sample["doc"]["task_id"]]
        assert set(sample["doc"]) == {"task_id", "prompt", "question", "stop", "env_digest"}
        assert sample["doc"]["env_digest"] == env.digest
        shown = json.dumps({key: value for key, value in sample.items() if key != "resps"}, default=str)
        assert "check(candidate)" not in shown
        body = (env.reference or "")[len(env.prefix) :].strip()
        assert json.dumps(body)[1:-1] not in shown or len(body) < 30
        assert sample["target"] == ""


@MODES
def test_a_sample_says_how_each_run_was_judged(right: Any, chat: bool) -> None:
    for sample in right[chat][0].samples("deepgym_humaneval"):
        ((graded,),) = sample["filtered_resps"]
        assert Graded.parse(str(graded)) == graded
        assert (graded.score, graded.passed, graded.error_type) == (1.0, True, None)
        assert len(graded.answer_sha256) == 64
        assert sample["metrics"] == [
            "deepgym_verdict",
            "deepgym_score",
            "deepgym_pass",
            "deepgym_judged",
            "deepgym_no_verdict",
        ]


def test_the_command_writes_what_python_returns_as_strict_json(
    known: Any, right: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with loopback(Answers(canonical, known)) as server:
        words = arguments(server, "deepgym_humaneval", "--log_samples", "--output_path", str(tmp_path))
        run = command(*words)
    assert run.returncode == 0, run.stderr
    files = written(tmp_path)
    assert files.values("deepgym_humaneval") == right[False][0].values("deepgym_humaneval")
    lines = files.samples("deepgym_humaneval")
    assert len(lines) == 164
    for line in lines:
        assert Graded.parse(line["filtered_resps"][0][0]) is not None
    assert "deepgym_pass" in run.stdout
    assert "Judging deepgym_humaneval: 100%" in run.stderr
