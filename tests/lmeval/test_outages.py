"""Runs without a verdict are left out of the scores and counted beside them, wherever results are looked at."""

from __future__ import annotations

import json
import logging
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import Environment
from deepgym.models import MODEL_FAULT_ERRORS
from deepgym.providers.base import Provider
from deepgym.providers.local import LocalProvider
from deepgym.testing import FAULTS, Fault, FaultyProvider
from deepgym_lmeval import make_lm_eval_task

from .answers import Answers, Says, canonical, wrong
from .harness import Run, arguments, command, evaluate, strict, written
from .server import Asked, loopback

#: Struck in play: such a run isn't repeated, and has no verdict.
PROVIDER = Fault("provider", Phase.IN_PLAY)
NETWORK = Fault("network", Phase.IN_PLAY)
TASK = "deepgym_humaneval"


class Struck(FaultyProvider):
    """Strikes the runs of the answers that ``wanted`` picks by their text, so that their order doesn't matter.

    The outage begins when a model is asked: the trial before that has its own tests.
    """

    def __init__(self, inner: Provider, fault: Fault, wanted: Callable[[str], bool]) -> None:
        super().__init__(inner, fault)
        self.wanted = wanted
        self.begun = False

    def strikes(self, answer: str) -> bool:
        if not self.begun or not self.wanted(answer):
            return False
        self.struck[answer] += 1
        return True

    def begin(self) -> None:
        self.begun = True
        if isinstance(self.inner, Struck):
            self.inner.begin()


def drawn(share: float, salt: str) -> Callable[[str], bool]:
    """Answers drawn by their text."""
    return lambda answer: random.Random(salt + answer).random() < share


def evaluated(provider: Provider, known: Any, says: Says, env: Any = "humaneval", **options: Any) -> Run:
    answers = Answers(says, known)

    def answer(asked: Asked) -> str:
        if isinstance(provider, Struck):
            provider.begin()
        return answers(asked)

    with DeepGym(provider=provider) as dg, loopback(answer) as server:
        return evaluate(server, make_lm_eval_task(env, dg=dg, **options))


@dataclass(frozen=True)
class Outage:
    """The same answers judged with and without an outage."""

    run: Run
    sound: Run
    log: list[logging.LogRecord]
    struck: dict[str, int]
    right: set[str]


@pytest.fixture(scope="module")
def outage(known: Any, humaneval: tuple[Environment, ...]) -> Outage:
    """Of 164 answers, two thirds of them right, a tenth strikes an outage: of the provider or of the network."""
    kinds = {env.name: (canonical, wrong, canonical)[at % 3] for at, env in enumerate(humaneval)}

    def says(env: Environment, chat: bool) -> str:
        return kinds[env.name](env, chat)

    provider = Struck(LocalProvider(), PROVIDER, drawn(0.06, "provider"))
    both = Struck(provider, NETWORK, drawn(0.04, "network"))
    kept = Kept()
    logging.getLogger("deepgym_lmeval").addHandler(kept)
    try:
        run = evaluated(both, known, says)
    finally:
        logging.getLogger("deepgym_lmeval").removeHandler(kept)
    # Where both strike, it is the inner one's failure that is seen.
    struck = {
        "provider_error": len(provider.struck),
        "network_error": len(both.struck.keys() - provider.struck.keys()),
    }
    right = {name for name, kind in kinds.items() if kind is canonical}
    return Outage(run, evaluated(LocalProvider(), known, says), kept.records, struck, right)


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_the_share_that_was_judged_is_exact(outage: Outage) -> None:
    values = outage.run.values(TASK)
    none = sum(outage.struck.values())
    share = (164 - none) / 164
    assert 8 <= none <= 30
    assert min(outage.struck.values()) > 0
    assert values["deepgym_verdict"] == share
    assert values["deepgym_verdict_stderr"] == pytest.approx(math.sqrt(share * (1 - share) / 163))
    assert (values["deepgym_judged"], values["deepgym_no_verdict"]) == (164 - none, none)


def test_the_score_is_exactly_that_of_the_judged_answers(outage: Outage) -> None:
    values = outage.run.values(TASK)
    judged = [sample["doc"]["task_id"] for sample in outage.run.samples(TASK) if "deepgym_score" in sample]
    share = sum(name in outage.right for name in judged) / len(judged)
    assert len(judged) == values["deepgym_judged"]
    assert values["deepgym_score"] == values["deepgym_pass"] == pytest.approx(share, abs=1e-12)
    error = math.sqrt(share * (1 - share) / (len(judged) - 1))
    assert values["deepgym_score_stderr"] == values["deepgym_pass_stderr"] == pytest.approx(error)


def test_the_score_is_within_its_standard_error_of_the_score_without_outages(outage: Outage) -> None:
    values, sound = outage.run.values(TASK), outage.sound.values(TASK)
    assert sound["deepgym_score"] == len(outage.right) / 164
    assert sound["deepgym_verdict"] == 1.0
    for name in ("deepgym_score", "deepgym_pass"):
        assert abs(values[name] - sound[name]) < values[f"{name}_stderr"]


def test_no_number_of_an_outage_is_nan(outage: Outage) -> None:
    strict(json.dumps(outage.run.everything["results"]))


def test_the_results_and_the_samples_say_what_failed(outage: Outage) -> None:
    none = sum(outage.struck.values())
    assert outage.run.judged(TASK) == {"runs": 164, "judged": 164 - none, "no_verdict": outage.struck}
    found: Counter[str] = Counter()
    for sample in outage.run.samples(TASK):
        found.update(sample["deepgym_no_verdict"])
        ((graded,),) = sample["filtered_resps"]
        assert strict(str(graded))["error_type"] == graded.error_type
        assert (sample["deepgym_no_verdict"] == {}) == graded.has_verdict == ("deepgym_score" in sample)
        assert sample["deepgym_judged"] == sample["deepgym_verdict"] == graded.has_verdict
        assert graded.error if not graded.has_verdict else graded.error_type is None
    assert found == outage.struck


def test_a_loud_line_says_how_few_were_judged_and_why(outage: Outage) -> None:
    (line,) = [record for record in outage.log if record.levelno >= logging.WARNING]
    text = line.getMessage()
    none = sum(outage.struck.values())
    assert line.levelno == logging.ERROR
    assert f"{TASK}: ONLY {164 - none} of 164 runs" in text
    assert f"{outage.struck['network_error']} network_error" in text
    assert f"{outage.struck['provider_error']} provider_error" in text


def test_the_answers_that_were_judged_are_judged_as_without_outages(outage: Outage) -> None:
    sound = {sample["doc"]["task_id"]: sample for sample in outage.sound.samples(TASK)}
    for sample in outage.run.samples(TASK):
        if "deepgym_score" in sample:
            assert sample["deepgym_score"] == sound[sample["doc"]["task_id"]]["deepgym_score"]


def test_a_few_runs_without_a_verdict_are_told_of_less_loudly(
    known: Any, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Struck(LocalProvider(), PROVIDER, lambda answer: "def truncate_number" in answer)
    run = evaluated(provider, known, canonical)
    assert run.values(TASK)["deepgym_verdict"] == 163 / 164
    (line,) = [record for record in caplog.records if record.name.startswith("deepgym_lmeval")]
    assert line.levelno == logging.WARNING
    assert "1 of 164 runs" in line.getMessage()
    assert "provider_error" in line.getMessage()


def test_where_nothing_could_be_judged_there_is_no_score_and_nothing_crashes(
    known: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from lm_eval.utils import make_table

    run = evaluated(Struck(LocalProvider(), PROVIDER, lambda answer: True), known, canonical)
    values = run.values(TASK)
    assert values == {
        "deepgym_verdict": 0.0,
        "deepgym_verdict_stderr": 0.0,
        "deepgym_judged": 0,
        "deepgym_judged_stderr": "N/A",
        "deepgym_no_verdict": 164,
        "deepgym_no_verdict_stderr": "N/A",
    }
    assert "deepgym_verdict" in make_table(run.everything)
    assert "ONLY 0 of 164 runs (0.0 %)" in caplog.text
    for sample in run.samples(TASK):
        assert "deepgym_score" not in sample
        assert sample["metrics"] == ["deepgym_verdict", "deepgym_judged", "deepgym_no_verdict"]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.phase is Phase.IN_PLAY], ids=str)
def test_only_what_the_contract_calls_no_verdict_is_left_out(known: Any, fault: Fault) -> None:
    provider = Struck(LocalProvider(), fault, lambda answer: "def to_roman" in answer)
    run = evaluated(provider, known, canonical, "easy")
    names = [sample["doc"]["task_id"] for sample in run.samples("deepgym_easy")]
    (sample,) = [s for s in run.samples("deepgym_easy") if s["doc"]["task_id"] == "to_roman"]
    values = run.values("deepgym_easy")
    if fault.error_type in MODEL_FAULT_ERRORS:
        assert (sample["deepgym_score"], sample["deepgym_no_verdict"]) == (0.0, {})
        assert values["deepgym_score"] == (len(names) - 1) / len(names)
        assert values["deepgym_verdict"] == 1.0
    else:
        assert sample["deepgym_no_verdict"] == {fault.error_type: 1}
        assert values["deepgym_score"] == 1.0
        assert values["deepgym_verdict"] == (len(names) - 1) / len(names)


PROGRAM = """
import sys
from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import load_suite
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider
from deepgym_lmeval import task
from deepgym_lmeval.grading import Grader

answers = [*load_suite("hard"), load_suite("easy").environments[1]]
lost = {env.reference.strip() for env in answers}

class Struck(FaultyProvider):
    begun = True

    def strikes(self, answer):
        return self.begun and answer.strip() in lost

provider = Struck(LocalProvider(), Fault("network", Phase.IN_PLAY))

class Afterwards(Grader):
    def smoke(self, environments):
        provider.begun = False
        super().smoke(environments)
        provider.begun = True

grader = Afterwards(DeepGym(provider=provider))
task.shared_grader = lambda: grader
if __name__ == "__main__":
    from deepgym.cli import main
    main(["lm-eval", *sys.argv[1:]])
"""


def test_the_command_survives_an_outage_and_writes_strict_json(known: Any, tmp_path: Path) -> None:
    """One suite loses every verdict, and another one of eight."""
    program, out = tmp_path / "program.py", tmp_path / "out"
    program.write_text(PROGRAM)
    with loopback(Answers(canonical, known)) as server:
        words = arguments(server, "deepgym_hard,deepgym_easy", chat=True)
        run = command(*words, "--log_samples", "--output_path", str(out), program=[str(program)])
    assert run.returncode == 0, run.stderr
    files = written(out)
    hard, easy = files.values("deepgym_hard"), files.values("deepgym_easy")
    assert not [name for name in hard if name.startswith(("deepgym_score", "deepgym_pass"))]
    assert (hard["deepgym_verdict"], hard["deepgym_no_verdict"]) == (0.0, 5)
    assert (easy["deepgym_verdict"], easy["deepgym_judged"], easy["deepgym_no_verdict"]) == (7 / 8, 7, 1)
    assert (easy["deepgym_score"], easy["deepgym_score_stderr"]) == (1.0, 0.0)
    assert files.judged("deepgym_hard") == {"runs": 5, "judged": 0, "no_verdict": {"network_error": 5}}
    assert files.judged("deepgym_easy") == {"runs": 8, "judged": 7, "no_verdict": {"network_error": 1}}
    lost = [sample for sample in files.samples("deepgym_easy") if "deepgym_score" not in sample]
    (graded,) = [strict(sample["filtered_resps"][0][0]) for sample in lost]
    assert (graded["score"], graded["error_type"]) == (None, "network_error")
    assert "deepgym_hard: ONLY 0 of 5 runs (0.0 %) were judged" in run.stderr
    assert "deepgym_easy: ONLY 7 of 8 runs (87.5 %) were judged" in run.stderr
    assert "Traceback" not in run.stderr
