"""``deepgym doctor lm-eval`` on the installed lm-eval: that it holds, and that the check would notice if not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deepgym.plugins import Finding
from deepgym_lmeval import check, metrics, probe

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/training/lm-eval.md"

pytestmark = [pytest.mark.local_sandbox]


@pytest.fixture
def afresh() -> Iterator[None]:
    """A task of this test's own; the others may share one."""
    shared = (probe._task, probe._suite)
    for kept in shared:
        kept.cache_clear()
    yield
    for kept in shared:
        kept.cache_clear()


def judged(name: str, answer: Any) -> Finding:
    judge = {"outage": check._left_out, "ranks": check._ranks, "log": check._logged, "missing": check._there}
    return check._finding(name, answer, judge[name], "the remedy")


# The installed lm-eval


def test_the_installed_lm_eval_leaves_a_run_without_a_verdict_out_and_the_page_says_so() -> None:
    found = check.findings()
    real = {finding.name: finding for finding in found}
    assert {finding.status for finding in found} == {"ok"}, found
    assert real["a run without a verdict"].detail == (
        "it is left out: deepgym_verdict 0.8750 of 8, deepgym_score 0.8571 ± 0.1429 of the others"
    )
    assert real["the same on two ranks"].detail == "its missing value is left out too: 0.6500 ± 0.2179"
    sample = PAGE.read_text(encoding="utf-8").partition("## Does it hold here?")[2]
    shown = sample.partition("```text\n")[2].partition("```")[0]
    said = "".join(f"ok    lm-eval: {finding.name}: {finding.detail}\n" for finding in found)
    assert without_what_depends(shown) == without_what_depends(said)


def without_what_depends(text: str) -> str:
    """The text without lm-eval's version and the sandbox's isolation."""
    return re.sub(r"lm-eval: 0\.4\.\d+|isolation \w+", "", text)


def test_the_probe_answers_every_question_into_a_file(afresh: None, tmp_path: Path) -> None:
    probe.main(str(tmp_path / "answers.json"))
    answers = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))
    assert answers["by_name"]["deepgym_score"] == 1.0
    outage = answers["outage"]
    assert (outage["documents"], outage["deepgym_judged"], outage["deepgym_no_verdict"]) == (8, 7, 1)
    assert outage["deepgym_verdict"] == 7 / 8
    assert outage["deepgym_score"] == pytest.approx(6 / 7)
    assert outage["deepgym_score_stderr"] == pytest.approx((6 / 7 * 1 / 7 / 6) ** 0.5)
    assert answers["ranks"]["with"] == answers["ranks"]["without"]
    assert answers["log"] == answers["missing"] == []


# One that doesn't hold


def test_a_mean_over_ranks_that_takes_none_for_zero_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepgym_lmeval.task import JudgedMean

    def counting(self: Any, values: list[Any]) -> float:
        values[:] = [value or 0.0 for value in values]
        return float(sum(values) / len(values))

    monkeypatch.setattr(JudgedMean, "__call__", counting)
    finding = judged("ranks", probe.two_ranks())
    assert finding.status == "fail"
    assert finding.detail == "its missing value counts: 0.5417 ± 0.2083, not 0.6500 ± 0.2179"


def test_a_mean_whose_standard_error_lm_eval_does_not_know_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from deepgym_lmeval.task import JudgedMean

    monkeypatch.setattr(JudgedMean, "__eq__", lambda self, other: self is other)
    answer = probe._answered(probe.two_ranks)
    assert judged("ranks", answer).detail == "lm-eval failed: TypeError: 'NoneType' object is not callable"


def test_a_log_without_its_runs_or_with_nan_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found, log = probe._suite()
    line = json.loads(log.splitlines()[0])
    monkeypatch.setattr(probe, "_suite", lambda: (found, "\n".join(log.splitlines()[1:])))
    assert probe.log_faults() == ["7 lines for 8 documents"]
    texts = [json.dumps({**line, "filtered_resps": [["lol"]]}), *log.splitlines()[1:]]
    monkeypatch.setattr(probe, "_suite", lambda: (found, "\n".join(texts)))
    assert probe.log_faults() == [f"{line['doc']['task_id']} has no run"]
    assert judged("log", probe.log_faults()).status == "fail"
    judged_after_all = log.replace(r"\"score\": null", r"\"score\": 1.0").replace(
        '"provider_error', '"solution'
    )
    monkeypatch.setattr(probe, "_suite", lambda: (found, judged_after_all))
    assert [fault.split()[0] for fault in probe.log_faults()] == [probe.LOST]
    monkeypatch.setattr(probe, "_suite", lambda: (found, json.dumps({**line, "deepgym_score": float("nan")})))
    assert probe._answered(probe.log_faults) == {"error": "ValueError: the log holds NaN, which isn't JSON"}


def test_a_part_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = (
        "lm_eval.api.task:ConfigurableTask.nonesuch",
        "lm_eval.nonesuch:Filter",
        "lm_eval.tasks:TaskManager.__init__(nonesuch)",
    )
    monkeypatch.setattr(probe, "TOUCHES", (*probe.TOUCHES, *gone))
    monkeypatch.setattr(probe, "_HELD", (*probe._HELD, "_nonesuch"))
    missing = probe.missing_parts()
    assert missing == ["ConfigurableTask()._nonesuch", *gone]
    assert judged("missing", missing).detail == f"not in this lm-eval: {', '.join(missing)}"


def test_every_method_of_lm_evals_task_that_ours_replaces_is_looked_for() -> None:
    from lm_eval.api.task import ConfigurableTask

    from deepgym_lmeval.task import DeepGymTask

    replaced = {name for name in vars(DeepGymTask) if hasattr(ConfigurableTask, name) and name[0] != "_"}
    looked_for = {name.rpartition(".")[2] for name in probe.TOUCHES if ":ConfigurableTask." in name}
    assert replaced <= looked_for | {"UNSAFE_CODE"}
    assert {"build_all_requests", "process_results", "download"} <= replaced


def test_a_missing_verdict_that_counts_as_zero_is_noticed(
    afresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deepgym_lmeval import task

    def zeroed(graded: Sequence[Any], *args: Any, **options: Any) -> dict[str, Any]:
        found = metrics.of_document(graded, *args, **options)
        return {metrics.SCORE: 0.0, metrics.PASS: 0.0, **found}

    monkeypatch.setattr(task, "of_document", zeroed)
    finding = judged("outage", probe.outage())
    assert (finding.status, finding.remedy) == ("fail", "the remedy")
    assert "it counts: deepgym_verdict 0.8750 of 8, deepgym_score 0.7500 ± 0.1637" in finding.detail
    assert "without it 0.8750, 0.8571 ± 0.1429" in finding.detail


def test_a_question_that_raises_is_answered_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise RuntimeError("no evaluation")

    monkeypatch.setattr(probe, "evaluated", broken)
    monkeypatch.setattr(probe, "_task", broken)
    probe.main(str(tmp_path / "answers.json"))
    answers = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))
    names = {"by_name", "outage", "ranks", "log", "missing"}
    assert answers == {name: {"error": "RuntimeError: no evaluation"} for name in names}
