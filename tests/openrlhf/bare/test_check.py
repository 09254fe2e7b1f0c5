"""What ``deepgym doctor openrlhf`` makes of what it found."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from deepgym.integrations import checking
from deepgym.integrations.probing import answers_of
from deepgym.plugins import Finding
from deepgym_openrlhf import check

LOGS = {"deepgym_verdict": [1.0], "no_verdict": [0.0]}
JUDGED = [{"reward": [value], "scores": [value], "extra_logs": LOGS} for value in (1.0, 0.0)]
LOST = {"reward": [-0.25], "scores": [-0.25], "extra_logs": {"deepgym_verdict": [0.0], "no_verdict": [1.0]}}
GOOD = {
    "client": "openrlhf.utils.agent",
    "empty": {"rewards": [], "scores": []},
    "rewards": JUDGED,
    "outage": [LOST],
    "several": JUDGED,
    "agent_file": JUDGED,
    "python_file": JUDGED,
}


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Findings by name, for these answers of the other process and this version of OpenRLHF."""

    def findings(answers: Any, version: str | None = "0.11.2") -> dict[str, Finding]:
        monkeypatch.setattr(check, "answers_of", lambda module: answers)
        monkeypatch.setattr(check.versions, "installed", lambda: version)
        return {finding.name: finding for finding in check.findings()}

    return findings


def test_all_that_holds_is_ok_and_the_flags_are_named(found: Any) -> None:
    findings = found(GOOD)
    assert {finding.status for finding in findings.values()} == {"ok"}
    assert findings["openrlhf"].detail == (
        "0.11.2 (>=0.9.1); its flags are --reward.remote_url and --train.agent_func_path"
    )
    assert findings["rewards"].detail == "reference 1, empty answer 0"
    assert len(findings) == 8


def test_without_openrlhf_the_endpoint_alone_is_tried(found: Any) -> None:
    findings = found(GOOD, None)
    assert {name: finding.status for name, finding in findings.items()} == {
        "openrlhf": "warn",
        "an empty request": "ok",
    }
    assert 'pip install "deepgym-openrlhf[trainer]==1.0.0"' in findings["openrlhf"].remedy


def test_a_version_with_another_interface_fails(found: Any) -> None:
    finding = found(GOOD, "0.8.11")["openrlhf"]
    assert finding.status == "fail"
    assert "0.8.11, not >=0.9.1" in finding.detail


@pytest.mark.parametrize(
    ("key", "answer", "name"),
    [
        ("rewards", [{**JUDGED[0], "reward": None}, JUDGED[1]], "rewards"),
        ("rewards", [{**JUDGED[0], "scores": [0.0]}, JUDGED[1]], "rewards"),
        ("rewards", [{**JUDGED[0], "extra_logs": {}}, JUDGED[1]], "rewards"),
        ("rewards", [JUDGED[1], JUDGED[1]], "rewards"),
        ("outage", [JUDGED[1]], "a run without a verdict"),
        ("outage", [{**LOST, "extra_logs": LOGS}], "a run without a verdict"),
        ("outage", [{**LOST, "extra_logs": None}], "a run without a verdict"),
        ("empty", {"detail": "field required"}, "an empty request"),
        ("several", {"error": "RuntimeError: gone"}, "two addresses"),
        ("agent_file", None, "the agent file"),
        ("python_file", [], "the Python file"),
    ],
)
def test_what_does_not_hold_fails_and_the_rest_does_not(found: Any, key: str, answer: Any, name: str) -> None:
    findings = found({**GOOD, key: answer})
    assert [finding.name for finding in findings.values() if finding.status == "fail"] == [name]
    assert findings[name].remedy


def test_a_client_that_cannot_be_loaded_is_one_finding_with_its_remedy(found: Any) -> None:
    error = {"error": "ModuleNotFoundError: No module named 'aiohttp'"}
    findings = found({**GOOD, "client": error, "rewards": error})
    assert [name for name, finding in findings.items() if finding.status == "fail"] == ["OpenRLHF's client"]
    assert "No module named 'aiohttp'" in findings["OpenRLHF's client"].detail
    assert "pip install aiohttp" in findings["OpenRLHF's client"].remedy
    assert "rewards" not in findings


def test_another_process_that_dies_is_a_finding(found: Any) -> None:
    findings = found("their process ended with -9: it said nothing")
    assert findings["the endpoint"].status == "fail"
    assert "-9" in findings["the endpoint"].detail


def test_a_check_that_breaks_is_a_finding_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: str) -> Any:
        raise OSError("no process to be had")

    monkeypatch.setattr(check, "answers_of", broken)
    (finding,) = [one for one in check.findings() if one.name == "OpenRLHF's client"]
    assert (finding.status, "no process to be had" in finding.detail) == ("fail", True)


def test_packages_of_two_versions_fail(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "version_of", {"deepgym": "1.0.0", "deepgym-openrlhf": "0.9"}.get)
    finding = found(GOOD)["deepgym's own versions"]
    assert (finding.status, finding.detail) == ("fail", "deepgym-openrlhf 0.9 beside deepgym 1.0.0")
    assert finding.remedy == 'pip install "deepgym[openrlhf]==1.0.0"'


def test_a_distribution_that_is_not_there_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(checking, "version", none)
    assert checking.version_of("deepgym-openrlhf") is None


def test_the_probe_asks_a_real_endpoint_for_nothing() -> None:
    answers = answers_of("deepgym_openrlhf.probe")
    assert isinstance(answers, dict), answers
    assert answers["empty"] == {"rewards": [], "scores": []}
    assert set(answers) == set(GOOD)
