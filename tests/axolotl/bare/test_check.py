"""``deepgym doctor axolotl``: what each answer of the installed Axolotl becomes. (The real one: test_command.)"""

from __future__ import annotations

from typing import Any

import pytest

from deepgym.plugins import Finding
from deepgym_axolotl import check

GOOD: dict[str, Any] = {
    "reward": True,
    "transform": True,
    "plugin": [],
    "siblings": {"with": [1.12, -0.8, 0.0, -0.32], "without": [1.12, -0.8, -0.32]},
    "mask": [2, 2, 0, 2],
}


def found(monkeypatch: pytest.MonkeyPatch, answers: Any, **versions: str | None) -> dict[str, Finding]:
    there = {"axolotl": "0.19.0", "trl": "1.9.0", "deepgym": "1.0.0", "deepgym-trl": "1.0.0"}
    monkeypatch.setattr("deepgym_axolotl.check.version_of", {**there, **versions}.get)
    monkeypatch.setattr("deepgym_axolotl.check.answers_of", lambda module: answers)
    return {finding.name: finding for finding in check.findings()}


def test_a_good_axolotl_is_found_good(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = found(monkeypatch, GOOD)
    assert {finding.status for finding in findings.values()} == {"ok"}
    assert len(findings) == 6


@pytest.mark.parametrize(
    ("answer", "name", "said"),
    [
        ({"reward": False}, "deepgym_axolotl.reward", "Axolotl can't load it: False"),
        ({"transform": {"error": "KeyError: x"}}, "deepgym_axolotl.transform", "can't load it: KeyError: x"),
        ({"plugin": ["register"]}, "deepgym_axolotl.DeepGymPlugin", "doesn't know its register"),
        ({"siblings": {"error": "boom"}}, "a row without a verdict", "the trainer failed: boom"),
        (
            {"siblings": {"with": [1.305, -0.783, -0.783, 0.261], "without": [1.12, -0.8, -0.32]}},
            "a row without a verdict",
            "it moves its siblings: advantages [1.305, -0.783, -0.783, 0.261]",
        ),
        (
            {"siblings": {"with": [1.2, -0.8, 0.0, -0.4], "without": [1.12, -0.8, -0.32]}},
            "a row without a verdict",
            "it moves its siblings",
        ),
        (
            {"siblings": {"with": [0.0] * 4, "without": [0.0] * 3}},
            "a row without a verdict",
            "the trainer's numbers say nothing",
        ),
        ({"mask": [2, 2, 2, 2]}, "MaskedGRPOTrainer: a row without a verdict", "by row: [2, 2, 2, 2]"),
        ({"mask": None}, "MaskedGRPOTrainer: a row without a verdict", "the trainer failed: no answer"),
    ],
)
def test_what_is_wrong_with_it_is_said(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], name: str, said: str
) -> None:
    finding = found(monkeypatch, {**GOOD, **answer})[name]
    assert finding.status == "fail"
    assert said in finding.detail
    assert finding.remedy


def test_a_probe_that_does_not_answer_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, "it took longer than 300 s")["axolotl"].detail == "it took longer than 300 s"


def test_a_check_that_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = found(monkeypatch, {"reward": True, "siblings": {"with": []}})["axolotl"]
    assert finding.status == "fail"
    assert finding.detail.startswith("the check itself failed: ")


@pytest.mark.parametrize(
    ("versions", "name", "status", "said"),
    [
        ({"axolotl": None}, "axolotl", "warn", "nothing of it was tried"),
        ({"axolotl": "0.17.0"}, "axolotl", "fail", "in which a reward of None is 0"),
        ({"deepgym-trl": "0.9"}, "deepgym-trl", "fail", "deepgym-trl 0.9 beside deepgym"),
    ],
)
def test_the_packages_have_to_fit(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str | None], name: str, status: str, said: str
) -> None:
    finding = found(monkeypatch, GOOD, **versions)[name]
    assert finding.status == status
    assert said in finding.detail
