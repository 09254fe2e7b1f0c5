"""``deepgym doctor lm-eval``: what each answer of the installed lm-eval becomes, and what is said without one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deepgym.cli import main
from deepgym.environments import Environment
from deepgym.exceptions import SandboxError
from deepgym.integrations import checking
from deepgym.plugins import Finding
from deepgym_lmeval import check, versions
from deepgym_lmeval.graded import Graded
from deepgym_lmeval.grading import Grader

PROJECT = Path(__file__).parents[3] / "packages/deepgym-lmeval/pyproject.toml"
INSTALL = 'pip install "deepgym-lmeval[trainer]==1.0.0"'

#: What the probe answers where all is well.
WELL: dict[str, Any] = {
    "by_name": {"task": "deepgym_two_sum", "deepgym_score": 1.0, "deepgym_verdict": 1.0},
    "outage": {
        "documents": 8,
        "deepgym_verdict": 0.875,
        "deepgym_score": 6 / 7,
        "deepgym_pass": 6 / 7,
        "deepgym_score_stderr": 1 / 7,
    },
    "ranks": {"with": [0.65, 0.25], "without": [0.65, 0.25]},
    "log": [],
    "missing": [],
}
RIGHT = (Graded(1.0, True, isolation="namespaces"), Graded(0.0, False, isolation="namespaces"))
A_RUN = "a run without a verdict"


class Installation:
    """What ``check`` believes to be installed."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {"deepgym": "1.0.0", "deepgym-lmeval": "1.0.0"}
        self.lm_eval: str | None = "0.4.13"
        self.graded: Sequence[Graded] | Exception = RIGHT
        self.answers: dict[str, Any] | str = WELL
        self.asked: list[str] = []

    def ask(self, module: str) -> dict[str, Any] | str:
        self.asked.append(module)
        return self.answers

    def grade(self, grader: object, pairs: Sequence[tuple[Environment, str]], label: str) -> list[Graded]:
        assert [(env.name, code == env.reference) for env, code in pairs] == [
            ("two_sum", True),
            ("two_sum", False),
        ]
        if isinstance(self.graded, Exception):
            raise self.graded
        return list(self.graded)

    def findings(self) -> dict[str, Finding]:
        found = check.findings()
        assert len({finding.name for finding in found}) == len(found)
        assert all(finding.remedy for finding in found if finding.status != "ok")
        return {finding.name: finding for finding in found}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installation:
    made = Installation()
    monkeypatch.setattr(checking, "version_of", made.versions.get)
    monkeypatch.setattr(versions, "installed", lambda: made.lm_eval)
    monkeypatch.setattr(check, "answers_of", made.ask)
    monkeypatch.setattr(Grader, "grade", lambda grader, pairs, label: made.grade(grader, pairs, label))
    return made


def test_where_all_is_well_everything_is_ok(installed: Installation) -> None:
    found = installed.findings()
    assert {finding.status for finding in found.values()} == {"ok"}
    assert installed.asked == ["deepgym_lmeval.probe"]
    assert list(found) == [
        "lm-eval",
        "grading",
        "a task by its name",
        A_RUN,
        "the same on two ranks",
        "the sample log",
        "parts of lm-eval that this package uses",
    ]
    assert found["lm-eval"].detail == "0.4.13 (>=0.4.10,<0.5)"
    assert found["grading"].detail == "two_sum: reference 1.0, empty answer 0.0; isolation namespaces"


def test_without_lm_eval_there_is_a_warning_with_the_line_that_installs_it(installed: Installation) -> None:
    installed.lm_eval = None
    found = installed.findings()
    assert set(found) == {"lm-eval", "grading"}
    assert (found["lm-eval"].status, found["lm-eval"].remedy) == ("warn", INSTALL)
    assert found["grading"].status == "ok"
    assert installed.asked == []


@pytest.mark.local_sandbox
@pytest.mark.parametrize("name", ["lm-eval", "lmeval"])
def test_the_command_tries_the_sandbox_without_lm_eval(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(versions, "installed", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main(["doctor", name])
    printed, errors = capfd.readouterr()
    assert ended.value.code == 0, printed
    assert printed.splitlines()[:2] == [
        "warn  lm-eval: lm-eval: lm-eval isn't installed, so nothing of it was tried",
        f"      remedy: {INSTALL}",
    ]
    assert printed.splitlines()[2].startswith(
        "ok    lm-eval: grading: two_sum: reference 1.0, empty answer 0.0; isolation "
    )
    assert errors == "", "two runs need no bar"


def test_the_check_loads_no_lm_eval() -> None:
    code = (
        "import sys; import deepgym_lmeval.check; import deepgym_lmeval.probe; "
        "print(sorted({'datasets', 'lm_eval', 'numpy', 'torch', 'transformers'} & set(sys.modules)))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_entry_point_the_range_and_the_install_line_are_those_of_the_distribution() -> None:
    project = PROJECT.read_text(encoding="utf-8")
    assert 'lm-eval = "deepgym_lmeval.check:findings"' in project
    assert f'"lm-eval{versions.SUPPORTED}"' in project
    assert versions.INSTALL == INSTALL


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        ("0.4.10", "ok", "0.4.10 (>=0.4.10,<0.5)"),
        ("0.4.11", "ok", "0.4.11"),
        ("0.4.13.post1", "ok", "0.4.13.post1"),
        ("0.4.9.2", "fail", "before 0.4.10 it can't be imported beside transformers 5"),
        ("0.3.0", "fail", "0.3.0, not >=0.4.10,<0.5"),
        ("0.5.0.dev1", "fail", "from 0.5 on a filter gets one response at a time"),
        ("1.0", "fail", "from 0.5 on"),
        ("unknown", "fail", "unknown, not >=0.4.10,<0.5"),
    ],
)
def test_the_version_has_to_be_in_range(found: str, status: str, said: str, installed: Installation) -> None:
    installed.lm_eval = found
    finding = installed.findings()["lm-eval"]
    assert finding.status == status
    assert said in finding.detail
    assert finding.remedy == ("" if status == "ok" else INSTALL)


def test_another_version_of_the_core_is_said(installed: Installation) -> None:
    installed.versions["deepgym"] = "1.1.0"
    finding = installed.findings()["deepgym's own versions"]
    assert (finding.status, finding.detail) == ("fail", "deepgym-lmeval 1.0.0 beside deepgym 1.1.0")
    assert finding.remedy.startswith('pip install "deepgym[lm-eval]==')


@pytest.mark.parametrize(
    ("graded", "status", "said"),
    [
        (
            (Graded(None, False, "sandbox_error", "no namespaces"), RIGHT[1]),
            "fail",
            "reference None, empty answer 0.0: sandbox_error: no namespaces",
        ),
        (
            (RIGHT[0], Graded(None, False, "network_error", "gone")),
            "fail",
            "empty answer None: network_error: gone",
        ),
        ((Graded(0.5, False), RIGHT[1]), "fail", "reference 0.5, empty answer 0.0"),
        ((RIGHT[0], RIGHT[0]), "fail", "reference 1.0, empty answer 1.0"),
        (
            (Graded(1.0, True, isolation="unsafe"), Graded(0.0, False, isolation="unsafe")),
            "warn",
            "answers run without isolation",
        ),
    ],
    ids=["no verdict", "no verdict on nothing", "a bad reference", "a free score", "no isolation"],
)
def test_grading_that_is_not_right_is_said(
    graded: Sequence[Graded], status: str, said: str, installed: Installation
) -> None:
    installed.graded = graded
    finding = installed.findings()["grading"]
    assert finding.status == status
    assert said in finding.detail
    assert finding.remedy == (
        "lm-eval will ask for --confirm_run_unsafe_code" if status == "warn" else "deepgym doctor local"
    )


def changed(key: str, **fields: Any) -> dict[str, Any]:
    return {**WELL, key: {**WELL[key], **fields}}


@pytest.mark.parametrize(
    ("answers", "name", "said"),
    [
        (changed("by_name", deepgym_score=0.0), "a task by its name", "deepgym_two_sum scores 0.0"),
        (changed("by_name", deepgym_verdict=None), "a task by its name", "scores 1.0"),
        (
            changed("outage", deepgym_score=0.75, deepgym_score_stderr=0.1637),
            A_RUN,
            "it counts: deepgym_verdict 0.8750 of 8, deepgym_score 0.7500 ± 0.1637 of the others; "
            "without it 0.8750, 0.8571 ± 0.1429",
        ),
        (changed("outage", deepgym_pass=0.75), A_RUN, "it counts"),
        (changed("outage", deepgym_verdict=1.0), A_RUN, "deepgym_verdict 1.0000 of 8"),
        (changed("outage", deepgym_verdict=None), A_RUN, "deepgym_verdict None of 8"),
        (changed("outage", deepgym_score_stderr="N/A"), A_RUN, "deepgym_score 0.8571 ± N/A"),
        (changed("outage", deepgym_score_stderr=float("nan")), A_RUN, "deepgym_score 0.8571 ± nan"),
        (
            changed("ranks", **{"with": [0.54, 0.2]}),
            "the same on two ranks",
            "its missing value counts: 0.5400 ± 0.2000, not 0.6500 ± 0.2500",
        ),
        (changed("ranks", **{"with": [0.65, None]}), "the same on two ranks", "0.6500 ± None"),
        ({**WELL, "log": ["7 lines for 8 documents"]}, "the sample log", "7 lines for 8 documents"),
        (
            {**WELL, "missing": ["lm_eval.api.metrics:mean"]},
            "parts of lm-eval that this package uses",
            "not in this lm-eval: lm_eval.api.metrics:mean",
        ),
        ({**WELL, "outage": {"error": "KeyError: x"}}, A_RUN, "lm-eval failed: KeyError: x"),
        ({**WELL, "outage": None}, A_RUN, "lm-eval failed: no answer"),
        ({}, "the sample log", "lm-eval failed: no answer"),
    ],
)
def test_what_does_not_hold_is_said_with_a_remedy(
    answers: dict[str, Any], name: str, said: str, installed: Installation
) -> None:
    installed.answers = answers
    finding = installed.findings()[name]
    assert finding.status == "fail"
    assert said in finding.detail


def test_a_probe_that_does_not_answer_is_a_finding(installed: Installation) -> None:
    installed.answers = "their process wasn't done after 300 s"
    finding = installed.findings()["lm-eval's runs"]
    assert (finding.status, finding.detail) == ("fail", "their process wasn't done after 300 s")


def test_a_check_that_raises_is_a_finding_and_the_others_are_made(installed: Installation) -> None:
    installed.graded = SandboxError("no namespaces here")
    installed.answers = {**WELL, "outage": {"neither": 1}}
    found = installed.findings()
    assert found["grading"].detail == "the check itself failed: SandboxError: no namespaces here"
    assert found["lm-eval's runs"].detail == "the check itself failed: KeyError: 'documents'"
    assert found["lm-eval"].status == "ok"
