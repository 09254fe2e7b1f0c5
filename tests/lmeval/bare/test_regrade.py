"""Logs that are judged again in the real sandbox, written by hand so that each case is there. Without lm-eval."""

from __future__ import annotations

import json
import logging
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepgym import DeepGym, load_environment
from deepgym.contract.evidence import Phase
from deepgym.exceptions import SandboxError
from deepgym.providers.base import Provider
from deepgym.providers.local import LocalProvider
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym_lmeval import documents, logs, regrade
from deepgym_lmeval.graded import Graded
from deepgym_lmeval.regrading import Metric, Regraded
from deepgym_lmeval.samples import SamplesError

from .test_samples import MBPP, MISSING, line, put, strict

pytestmark = pytest.mark.local_sandbox

TWO_SUM = load_environment("two_sum")
HUMANEVAL = load_environment("humaneval/0")
RIGHT = f"Sure.\n\n```python\n{TWO_SUM.reference}\n```"
WRONG = "```python\ndef two_sum(nums, target):\n    return None\n```"
#: Right where the pair stands first.
SOME = "```python\ndef two_sum(nums, target):\n    return [0, 1]\n```"
NONE, FULL = Graded(score=0.0, passed=False), Graded(score=1.0, passed=True)
ZERO, ONE = Metric(0.0, None), Metric(1.0, None)


@pytest.fixture(scope="module")
def dg() -> Iterator[DeepGym]:
    with DeepGym() as client:
        yield client


class Struck(FaultyProvider):
    """Loses the verdict of each run whose answer has ``word`` in it."""

    def __init__(self, inner: Provider, word: str) -> None:
        super().__init__(inner, Fault("provider", Phase.IN_PLAY))
        self.word = word

    def strikes(self, answer: str) -> bool:
        return self.word in answer


def document(environment: Any, number: int, *texts: str, **more: Any) -> dict[str, Any]:
    return line(*texts, doc=documents.row(environment), doc_id=number, **more)


def one(path: Path, **options: Any) -> Regraded:
    (found,) = regrade([path], **options)
    return found


def test_a_log_of_predict_only_gets_the_numbers_of_a_graded_run(tmp_path: Path, dg: DeepGym) -> None:
    found = one(
        put(tmp_path, *[line(text, doc_id=n) for n, text in enumerate([RIGHT, WRONG, RIGHT, ""])]), dg=dg
    )
    stderr = statistics.stdev([1, 0, 1, 0]) / math.sqrt(4)
    assert found == Regraded(
        path=tmp_path / "samples_deepgym_easy_2026-11-30T14-25-50.123456.jsonl",
        task="deepgym_easy",
        documents=4,
        runs=4,
        judged=4,
        anew=4,
        no_verdict={},
        metrics={
            "deepgym_verdict": Metric(1.0, 0.0),
            "deepgym_score": Metric(0.5, pytest.approx(stderr, rel=1e-15)),
            "deepgym_pass": Metric(0.5, pytest.approx(stderr, rel=1e-15)),
        },
        gained=0,
        lost=0,
        moved=0,
        ungraded=4,
        out=None,
    )
    assert found.changed == 0


def test_a_model_that_continued_the_prompt_and_one_that_was_asked_are_each_read_their_way(
    tmp_path: Path, dg: DeepGym
) -> None:
    assert HUMANEVAL.reference is not None
    body = HUMANEVAL.reference[len(HUMANEVAL.prefix) :]
    asked = f"<user>{documents.row(HUMANEVAL)['question']}<assistant>"
    path = put(
        tmp_path,
        document(HUMANEVAL, 0, body + "\ndef after(", sent=HUMANEVAL.prefix),
        document(HUMANEVAL, 1, f"```python\n{HUMANEVAL.reference}\n```", sent=asked),
        document(
            TWO_SUM, 2, f"{TWO_SUM.reference}\n```\nThat is all (", sent=documents.row(TWO_SUM)["prompt"]
        ),
        document(TWO_SUM, 3, RIGHT),
    )
    assert one(path, dg=dg).metrics["deepgym_pass"] == Metric(1.0, 0.0)


def test_lm_evals_own_humaneval_log_is_judged_too(tmp_path: Path, dg: DeepGym) -> None:
    assert HUMANEVAL.reference is not None
    body = HUMANEVAL.reference[len(HUMANEVAL.prefix) :]
    doc = {
        "task_id": "HumanEval/0",
        "prompt": HUMANEVAL.prefix,
        "canonical_solution": body,
        "test": "def check(candidate):\n    assert True\n",
        "entry_point": "has_close_elements",
    }
    wrong = "    return None\n"
    rows = [
        {
            **line(text, doc=doc, sent=HUMANEVAL.prefix, doc_id=number),
            "filter": "create_test",
            "filtered_resps": [[HUMANEVAL.prefix + text]],
            "metrics": ["pass@1"],
            "pass@1": 1.0,
        }
        for number, text in enumerate([body, wrong])
    ]
    path = put(tmp_path, *rows, name="samples_humaneval_2026-11-30T14-25-50.123456.jsonl")
    found = one(path, dg=dg, out=tmp_path / "out.jsonl")
    assert (found.task, found.metrics["deepgym_pass"].value, found.ungraded) == ("humaneval", 0.5, 2)
    written = [strict(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["pass@1"], row["deepgym_pass"], row["metrics"][0]) for row in written] == [
        (1.0, 1.0, "pass@1"),
        (1.0, 0.0, "pass@1"),
    ]


def test_what_changed_is_counted_by_how(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = put(
        tmp_path,
        line(RIGHT, doc_id=0, grades=[MISSING]),
        line(RIGHT, doc_id=1, grades=[NONE]),
        line(WRONG + "\nNow STRIKE", doc_id=2, grades=[NONE]),
        line(WRONG.replace("None", "'STRIKE'"), doc_id=3, grades=[NONE]),
        line(WRONG, doc_id=4, grades=[NONE]),
        line(WRONG, doc_id=5),
        line(WRONG.replace("None", "'STRIKE'"), doc_id=6, grades=[MISSING]),
    )
    with DeepGym(provider=Struck(LocalProvider(), "STRIKE")) as dg:
        found = one(path, dg=dg)
    assert (found.gained, found.lost, found.moved, found.ungraded, found.changed) == (1, 1, 1, 1, 3)
    assert (found.runs, found.judged, found.anew, found.no_verdict) == (7, 5, 7, {"provider_error": 2})
    assert found.metrics["deepgym_verdict"].value == 5 / 7
    assert found.metrics["deepgym_score"] == Metric(
        0.4, pytest.approx(statistics.stdev([1, 1, 0, 0, 0]) / math.sqrt(5))
    )
    (loud,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "deepgym_easy: ONLY 5 of 7 runs (71.4 %) were judged" in loud


def test_a_score_that_is_neither_full_nor_none_is_kept_as_it_is(tmp_path: Path, dg: DeepGym) -> None:
    share = dg.run("two_sum", documents.code_of(TWO_SUM, SOME, True)).score
    assert 0 < share < 1
    found = one(put(tmp_path, line(SOME, grades=[Graded(score=share, passed=False)])), dg=dg)
    assert (found.metrics["deepgym_score"], found.metrics["deepgym_pass"]) == (Metric(share, None), ZERO)
    assert found.changed == 0


def test_only_missing_judges_nothing_that_has_a_verdict(tmp_path: Path, dg: DeepGym) -> None:
    """The log's grades are wrong on purpose: what is kept can be told from what is judged."""
    path = put(
        tmp_path,
        line(WRONG, RIGHT, doc_id=0, grades=[FULL, MISSING]),
        line(WRONG, RIGHT, doc_id=1, grades=[MISSING, NONE]),
        line(WRONG, RIGHT, doc_id=2),
    )
    found = one(path, dg=dg, only_missing=True, out=tmp_path / "out.jsonl")
    assert (found.runs, found.anew, found.judged) == (6, 4, 6)
    assert (found.gained, found.lost, found.moved, found.ungraded) == (2, 0, 0, 2)
    rows = [strict(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()]
    scores = [[json.loads(text)["score"] for text in row["filtered_resps"][0]] for row in rows]
    assert scores == [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]
    assert json.loads(rows[0]["filtered_resps"][0][0]) == json.loads(str(FULL))


def test_a_log_that_misses_nothing_needs_no_judge(tmp_path: Path) -> None:
    path = put(tmp_path, line(WRONG, grades=[FULL]))
    with DeepGym(provider=FakeProvider()) as dg:
        found = one(path, dg=dg, only_missing=True)
        assert dg.provider.opened == 0  # type: ignore[attr-defined]
    assert (found.anew, found.judged, found.metrics["deepgym_score"]) == (0, 1, ONE)


def test_a_judge_that_is_broken_is_found_before_the_batch(tmp_path: Path) -> None:
    path = put(tmp_path, line(RIGHT, grades=[MISSING]))
    broken = FaultyProvider(LocalProvider(), Fault("provider", Phase.OPENED))
    with DeepGym(provider=broken) as dg, pytest.raises(SandboxError, match="deepgym doctor local"):
        regrade([path], dg=dg, out=tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_that_cant_be_written_at_the_end_costs_no_numbers(
    tmp_path: Path, dg: DeepGym, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise SamplesError("out.jsonl can't be written: No space left on device")

    monkeypatch.setattr(logs, "write", full)
    found = one(put(tmp_path, line(RIGHT, grades=[MISSING])), dg=dg, out=tmp_path / "out.jsonl")
    assert (found.metrics["deepgym_score"], found.out) == (ONE, None)
    assert "No space left on device; the grades are lost, the numbers aren't" in caplog.text


def test_nothing_judged_gives_no_score_and_never_a_nan(tmp_path: Path) -> None:
    path = put(tmp_path, *[line(WRONG.replace("None", f"'STRIKE {n}'"), doc_id=n) for n in range(2)])
    with DeepGym(provider=Struck(LocalProvider(), "STRIKE")) as dg:
        found = one(path, dg=dg, out=tmp_path / "out.jsonl")
    assert found.metrics == {
        "deepgym_verdict": Metric(0.0, 0.0),
        "deepgym_score": Metric(None, None),
        "deepgym_pass": Metric(None, None),
    }
    for text in (tmp_path / "out.jsonl").read_text().splitlines():
        row = strict(text)
        assert row["metrics"] == ["deepgym_verdict", "deepgym_judged", "deepgym_no_verdict"]
        assert (row["deepgym_verdict"], row["deepgym_no_verdict"]) == (0.0, {"provider_error": 1})


def test_several_answers_to_a_document_give_pass_at_k(tmp_path: Path, dg: DeepGym) -> None:
    path = put(tmp_path, line(RIGHT, WRONG, WRONG, doc_id=0), line(WRONG, WRONG, WRONG, doc_id=1))
    assert one(path, dg=dg).metrics["deepgym_pass@3"].value == 0.5
    assert one(path, dg=dg).metrics["deepgym_pass"].value == pytest.approx(1 / 6)


def test_the_k_that_the_run_had_stays(tmp_path: Path, dg: DeepGym) -> None:
    grades = [FULL, NONE, NONE]
    first = line(RIGHT, WRONG, WRONG, doc_id=0, grades=[MISSING, MISSING, NONE])
    second = line(RIGHT, WRONG, WRONG, doc_id=1, grades=grades, **{"deepgym_pass@2": 2 / 3})
    found = one(put(tmp_path, first, second), dg=dg)
    assert list(found.metrics) == ["deepgym_verdict", "deepgym_score", "deepgym_pass", "deepgym_pass@2"]
    assert found.metrics["deepgym_pass@2"] == Metric(pytest.approx(2 / 3), pytest.approx(0.0))


def test_a_log_of_several_ranks_keeps_every_key(tmp_path: Path) -> None:
    grades = [MISSING]
    more = {"deepgym_score": None, "deepgym_pass": None, "deepgym_verdict": 0.0}
    path = put(tmp_path, line(WRONG.replace("None", "'STRIKE'"), grades=grades, **more))
    with DeepGym(provider=Struck(LocalProvider(), "STRIKE")) as dg:
        one(path, dg=dg, out=tmp_path / "out.jsonl")
    row = strict((tmp_path / "out.jsonl").read_text())
    assert (row["deepgym_score"], row["deepgym_pass"], row["deepgym_verdict"]) == (None, None, 0.0)


def test_more_answers_than_expected_are_all_judged(tmp_path: Path, dg: DeepGym) -> None:
    found = one(put(tmp_path, line(RIGHT, WRONG, doc_id=0), line(RIGHT, doc_id=1)), dg=dg)
    assert (found.runs, found.judged) == (3, 3)
    assert found.metrics["deepgym_pass"].value == 0.75
    assert "deepgym_pass@2" not in found.metrics


def test_several_logs_are_judged_in_one_batch_and_each_has_its_numbers(
    tmp_path: Path, dg: DeepGym, capsys: pytest.CaptureFixture[str]
) -> None:
    easy = put(tmp_path, line(RIGHT), name="samples_deepgym_easy_2026-11-30T14-25-50.jsonl")
    hard = put(
        tmp_path, line(WRONG), line(RIGHT, doc_id=1), name="samples_deepgym_hard_2026-11-30T14-25-50.jsonl"
    )
    found = regrade([hard, easy], dg=dg, out=tmp_path / "out")
    assert [(one.task, one.runs, one.metrics["deepgym_pass"].value) for one in found] == [
        ("deepgym_hard", 2, 0.5),
        ("deepgym_easy", 1, 1.0),
    ]
    assert "Judging 2 files" in capsys.readouterr().err
    assert [one.out for one in found] == [tmp_path / "out" / hard.name, tmp_path / "out" / easy.name]
    assert one_task(tmp_path / "out" / hard.name) == [0.0, 1.0]


def one_task(path: Path) -> list[float]:
    return [strict(text)["deepgym_pass"] for text in path.read_text().splitlines()]


def test_what_was_written_can_be_regraded_and_changes_nothing(tmp_path: Path, dg: DeepGym) -> None:
    path = put(tmp_path, line(RIGHT, SOME, doc_id=0), line(WRONG, "", doc_id=1))
    first = one(path, dg=dg, out=tmp_path / "first.jsonl")
    second = one(tmp_path / "first.jsonl", dg=dg, out=tmp_path / "second.jsonl")
    assert first.metrics == second.metrics
    assert (second.changed, second.ungraded) == (0, 0)
    assert (tmp_path / "first.jsonl").read_bytes() == (tmp_path / "second.jsonl").read_bytes()


def test_an_answer_that_claims_its_grade_is_judged(tmp_path: Path, dg: DeepGym) -> None:
    found = one(put(tmp_path, line(str(FULL))), dg=dg, only_missing=True)
    assert (found.anew, found.metrics["deepgym_score"]) == (1, ZERO)


def test_answers_that_no_encoding_holds_are_judged_too(tmp_path: Path, dg: DeepGym) -> None:
    found = one(
        put(tmp_path, line("\ud800", "\x00", "```python\nx = '\udcff'\n```")),
        dg=dg,
        out=tmp_path / "out.jsonl",
    )
    assert (found.judged, found.metrics["deepgym_score"]) == (3, ZERO)
    assert strict((tmp_path / "out.jsonl").read_bytes().decode("utf-8"))["resps"][0][0] == "\ud800"


def test_environments_that_are_others_now_are_said_once(
    tmp_path: Path, dg: DeepGym, caplog: pytest.LogCaptureFixture
) -> None:
    other = {**documents.row(TWO_SUM), "env_digest": "0" * 64}
    path = put(tmp_path, line(RIGHT, doc=other), line(RIGHT, doc=other, doc_id=1), line(RIGHT, doc_id=2))
    assert one(path, dg=dg).metrics["deepgym_pass"].value == 1.0
    assert [record.getMessage() for record in caplog.records] == [
        "2 of 3 documents were of another version of their environment, two_sum for one; they are judged by "
        "what is installed now"
    ]


def test_a_suites_file_gives_the_environments(tmp_path: Path, dg: DeepGym) -> None:
    (tmp_path / "mbpp.jsonl").write_text(json.dumps(MBPP) + "\n")
    path = put(tmp_path, line("def add(a, b):\n    return a + b", doc={"task_id": "mbpp/2", "prompt": "x"}))
    with pytest.raises(SamplesError, match=r"line 1: no environment is named 'mbpp/2'; --suite"):
        regrade([path], dg=dg)
    assert one(path, dg=dg, suite=tmp_path / "mbpp.jsonl").metrics["deepgym_pass"] == ONE


def test_no_log_gives_nothing() -> None:
    assert regrade([]) == []


def test_without_a_client_one_is_opened_and_closed(tmp_path: Path) -> None:
    assert one(put(tmp_path, line(RIGHT))).metrics["deepgym_pass"] == ONE
