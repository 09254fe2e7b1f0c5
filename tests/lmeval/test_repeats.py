"""Several completions of a document: pass@k of what was judged, and a word where they are all the same."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import fmean
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import Environment
from deepgym.providers.base import Provider
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider
from deepgym_lmeval import make_lm_eval_task

from .answers import Answers, canonical, wrong
from .harness import Run, evaluate
from .server import Answer, Asked, loopback

pytestmark = pytest.mark.local_sandbox


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("deepgym_lmeval")]


def passing(known: Any, right: dict[str, int]) -> Answer:
    """To each environment so many right answers, and then wrong ones; no two are the same."""
    of = Answers(canonical, known)

    def answer(asked: Asked) -> str:
        env = of.environment(asked.prompt)
        text = (canonical if asked.turn < right[env.name] else wrong)(env, asked.chat)
        mark = f"mark = {asked.turn}\n"
        return text.replace("```python\n", f"```python\n{mark}") if asked.chat else f"    {mark}{text}"

    return answer


def pass_at(passed: int, judged: int, k: int) -> float:
    """By counting every choice of k among the judged runs."""
    runs = [index < passed for index in range(judged)]
    return fmean(any(chosen) for chosen in combinations(runs, k))


@pytest.mark.parametrize("chat", [False, True])
def test_pass_at_10_is_the_share_of_documents_with_a_right_answer(
    known: Any, humaneval: tuple[Environment, ...], chat: bool, caplog: pytest.LogCaptureFixture
) -> None:
    right = {env.name: (0, 1, 5, 10)[at % 4] for at, env in enumerate(humaneval)}
    with loopback(passing(known, right)) as server:
        run = evaluate(server, "deepgym_humaneval_k10", chat=chat, limit=4)
    values = run.values("deepgym_humaneval_k10")
    shares = (0.0, 0.1, 0.5, 1.0)
    error = math.sqrt(sum((share - 0.4) ** 2 for share in shares) / 3 / 4)
    assert values == {
        "deepgym_verdict": 1.0,
        "deepgym_verdict_stderr": 0.0,
        "deepgym_score": pytest.approx(0.4),
        "deepgym_score_stderr": pytest.approx(error),
        "deepgym_pass": pytest.approx(0.4),
        "deepgym_pass_stderr": pytest.approx(error),
        "deepgym_pass@10": 0.75,
        "deepgym_pass@10_stderr": pytest.approx(math.sqrt(0.75 * 0.25 / 3)),
        "deepgym_judged": 40,
        "deepgym_judged_stderr": "N/A",
        "deepgym_no_verdict": 0,
        "deepgym_no_verdict_stderr": "N/A",
    }
    assert len(server.asked) == 40
    assert told(caplog) == []
    for sample in run.samples("deepgym_humaneval_k10"):
        (graded,) = sample["filtered_resps"]
        assert len(graded) == 10
        assert sum(one.passed for one in graded) == right[sample["doc"]["task_id"]]


def test_repeats_are_sampled_and_all_with_the_one_seed_that_lm_eval_sends(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        evaluate(server, "deepgym_two_sum_k10")
    assert len(server.asked) == 10
    assert {(one.body["temperature"], one.body["max_tokens"]) for one in server.asked} == {(0.8, 1536)}
    assert {one.body["seed"] for one in server.asked} == {1234}


def test_the_seed_that_the_warning_advises_is_none(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        evaluate(server, "deepgym_two_sum_k10", gen_kwargs={"seed": None})
    assert {one.body["seed"] for one in server.asked} == {None}
    assert {one.body["temperature"] for one in server.asked} == {0.8}


def test_identical_repeats_are_warned_of_once(known: Any, caplog: pytest.LogCaptureFixture) -> None:
    with loopback(Answers(canonical, known)) as server:
        values = evaluate(server, "deepgym_humaneval_k10", limit=3).values("deepgym_humaneval_k10")
    assert values["deepgym_pass@10"] == 1.0
    (line,) = told(caplog)
    assert "identical" in line
    assert "3 of 3 documents" in line
    assert "--gen_kwargs seed=None" in line


def test_a_minority_of_identical_repeats_is_no_reason_to_warn(
    known: Any, humaneval: tuple[Environment, ...], caplog: pytest.LogCaptureFixture
) -> None:
    first = humaneval[0].prefix
    varied = passing(known, {env.name: 10 for env in humaneval})
    same = Answers(canonical, known)
    with loopback(lambda asked: (same if asked.prompt == first else varied)(asked)) as server:
        evaluate(server, "deepgym_humaneval_k10", limit=3)
    assert told(caplog) == []


class Struck(FaultyProvider):
    """Strikes runs by the number that the answer is marked with."""

    def __init__(self, inner: Provider, marks: dict[str, set[int]]) -> None:
        super().__init__(inner, Fault("provider", Phase.IN_PLAY))
        self.marks = marks

    def strikes(self, answer: str) -> bool:
        for name, marks in self.marks.items():
            if f"def {name}(" in answer and any(f"mark = {mark}\n" in answer for mark in marks):
                return True
        return False


def marked(known: Any, right: dict[str, int], marks: dict[str, set[int]], **options: Any) -> tuple[Run, str]:
    environments = [env for env in known if env.name in right]
    with DeepGym(provider=Struck(LocalProvider(), marks)) as dg, loopback(passing(known, right)) as server:
        task = make_lm_eval_task(environments, name="marked", dg=dg, **options)
        return evaluate(server, task), "marked"


def test_a_document_with_fewer_judged_runs_than_k_is_left_out_of_pass_at_k(known: Any) -> None:
    right = {"humaneval/0": 1, "humaneval/1": 4, "humaneval/2": 0}
    # Of the first document 2 runs are judged, both wrong; of the second 3, two of them right.
    marks = {"has_close_elements": {0, 1, 2}, "separate_paren_groups": {0, 1}}
    run, task = marked(known, right, marks, repeats=5, k=3)
    values = run.values(task)
    assert (values["deepgym_judged"], values["deepgym_no_verdict"]) == (10, 5)
    assert values["deepgym_verdict"] == pytest.approx((0.4 + 0.6 + 1.0) / 3)
    assert values["deepgym_score"] == values["deepgym_pass"] == pytest.approx((0 + 2 / 3 + 0) / 3)
    assert values["deepgym_pass@3"] == pytest.approx((pass_at(2, 3, 3) + pass_at(0, 5, 3)) / 2) == 0.5
    first, second, third = run.samples(task)
    assert "deepgym_pass@3" not in first
    assert (first["deepgym_score"], first["deepgym_judged"]) == (0.0, 2)
    assert (second["deepgym_pass@3"], third["deepgym_pass@3"]) == (1.0, 0.0)
    assert first["deepgym_no_verdict"] == {"provider_error": 3}


@pytest.mark.parametrize("k", [1, 2, 4])
def test_pass_at_k_of_more_repeats_is_unbiased(known: Any, k: int) -> None:
    right = {"humaneval/0": 1, "humaneval/1": 3}
    run, task = marked(known, right, {}, repeats=4, k=k)
    expected = fmean(pass_at(passed, 4, k) for passed in right.values())
    assert run.values(task)[f"deepgym_pass@{k}"] == pytest.approx(expected)


def test_a_document_whose_runs_all_lost_their_verdict_is_left_out_of_every_score(known: Any) -> None:
    right = {"humaneval/0": 3, "humaneval/1": 3}
    run, task = marked(known, right, {"has_close_elements": {0, 1, 2}}, repeats=3)
    values = run.values(task)
    assert values["deepgym_verdict"] == 0.5
    assert values["deepgym_score"] == values["deepgym_pass"] == values["deepgym_pass@3"] == 1.0
    assert values["deepgym_score_stderr"] == "N/A"
    assert run.samples(task)[0]["metrics"] == ["deepgym_verdict", "deepgym_judged", "deepgym_no_verdict"]


@pytest.mark.parametrize(
    "options", [{"repeats": 0}, {"repeats": -1}, {"repeats": 3, "k": 4}, {"k": 2}, {"k": 0}]
)
def test_impossible_repeats_are_refused_at_once(options: Any) -> None:
    with pytest.raises(ValueError, match="repeats="):
        make_lm_eval_task("two_sum", **options)
