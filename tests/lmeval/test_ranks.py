"""Two real processes, documents split between them: exactly the numbers of one process."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")
pytest.importorskip("torch")

from .harness import VERSION, strict

pytestmark = pytest.mark.local_sandbox

SCRIPT = Path(__file__).with_name("two_ranks.py")
HF = all(importlib.util.find_spec(name) for name in ("accelerate", "transformers"))
#: As in the script.
RIGHT = (0, 2, 3, 5)
STRUCK: dict[str, tuple[int, ...]] = {
    "sound": (),
    "rank 0 without a judged document": (0, 2, 4, 6),
    "rank 1 without a judged document": (1, 3, 5),
    "one judged document": (0, 1, 3, 4, 5, 6),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    into = tmp_path_factory.mktemp("ranks")
    models = [request.getfixturevalue("tiny_model")] if HF else []
    run = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"),
            *(str(SCRIPT), str(into), *models),
        ],
        env={**os.environ, "ACCELERATE_USE_CPU": "true"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-8000:]
    return into


@pytest.fixture(scope="module")
def results(folder: Path) -> Any:
    return strict((folder / "results.json").read_text())


def mean(values: list[float]) -> dict[str, Any]:
    """A mean and its standard error, as lm-eval reports them."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else "N/A"
    return {"": statistics.fmean(values), "_stderr": error if error == "N/A" else pytest.approx(error)}


def expected(verdicts: list[float], scores: list[float], judged: int, none: int) -> dict[str, Any]:
    means = {"deepgym_verdict": verdicts, "deepgym_score": scores, "deepgym_pass": scores}
    found = {name + key: value for name, values in means.items() for key, value in mean(values).items()}
    counts = {"deepgym_judged": judged, "deepgym_no_verdict": none}
    return {**found, **counts, **{f"{name}_stderr": "N/A" for name in counts}}


@pytest.mark.parametrize("name", STRUCK)
def test_means_and_standard_errors_are_those_of_the_judged_documents(results: Any, name: str) -> None:
    judged = [number for number in range(7) if number not in STRUCK[name]]
    verdicts = [float(number in judged) for number in range(7)]
    scores = [float(number in RIGHT) for number in judged]
    assert results[name]["values"] == expected(verdicts, scores, len(judged), 7 - len(judged))
    assert results[name]["n-samples"] == {"original": 7, "effective": 7}


def test_where_nothing_is_judged_on_any_rank_there_is_no_score(results: Any) -> None:
    """lm-eval gathers metrics key by key, so that all ranks must leave out the same."""
    values = results["nothing judged"]["values"]
    assert values == {
        "deepgym_verdict": 0.0,
        "deepgym_verdict_stderr": 0.0,
        "deepgym_judged": 0,
        "deepgym_judged_stderr": "N/A",
        "deepgym_no_verdict": 7,
        "deepgym_no_verdict_stderr": "N/A",
    }


def test_repeats_are_judged_on_both_ranks_and_pass_at_k_is_of_the_judged_documents(results: Any) -> None:
    verdicts = [float(number != 3) for number in range(7)]
    scores = [float(number in RIGHT) for number in range(7) if number != 3]
    pass_at = {f"deepgym_pass@3{key}": value for key, value in mean(scores).items()}
    assert results["repeats"]["values"] == {**expected(verdicts, scores, 18, 3), **pass_at}


@pytest.mark.skipif(
    VERSION < (0, 4, 12), reason="lm-eval before 0.4.12 reads configurations before it grades"
)
def test_the_results_hold_the_breakdown_of_both_ranks(results: Any) -> None:
    for name, struck in STRUCK.items():
        none = {"provider_error": len(struck)} if struck else {}
        assert results[name]["judged"] == {"runs": 7, "judged": 7 - len(struck), "no_verdict": none}
    assert results["repeats"]["judged"] == {"runs": 21, "judged": 18, "no_verdict": {"provider_error": 3}}


def test_a_rank_with_fewer_documents_judges_its_last_one_once(folder: Path) -> None:
    first, second = (json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1))
    for name in first:
        times = 3 if name == "repeats" else 1
        assert (first[name], second[name]) == (4 * times, 3 * times)


def test_the_sample_log_has_each_document_once_with_none_where_there_is_no_verdict(results: Any) -> None:
    for name, struck in STRUCK.items():
        samples = {sample["doc"]["task_id"]: sample for sample in results[name]["samples"]}
        assert len(samples) == len(results[name]["samples"]) == 7
        for number in range(7):
            sample = samples[f"humaneval/{number}"]
            score = None if number in struck else float(number in RIGHT)
            assert (sample.get("deepgym_score"), sample.get("deepgym_pass")) == (score, score)
            assert ("deepgym_score" in sample) == (name != "nothing judged")
            assert sample["deepgym_no_verdict"] == ({"provider_error": 1} if number in struck else {})
            ((graded,),) = sample["filtered_resps"]
            assert strict(graded)["score"] == score


@pytest.mark.skipif(not HF, reason="lm-eval's hf backend isn't installed")
def test_lm_evals_own_hf_backend_on_two_ranks_is_judged_once_a_document(results: Any) -> None:
    values = results["hf"]["values"]
    assert (values["deepgym_verdict"], values["deepgym_judged"], values["deepgym_no_verdict"]) == (1.0, 7, 0)
    assert (values["deepgym_score"], values["deepgym_score_stderr"]) == (0.0, 0.0)
    assert len(results["hf"]["samples"]) == 7
