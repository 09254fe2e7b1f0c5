"""What ``deepgym doctor verl`` makes of what it found."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, PackageNotFoundError
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from deepgym.integrations import checking
from deepgym.integrations.probing import answers_of
from deepgym.plugins import Finding
from deepgym_verl import check, probe, probe_parts, versions

JUDGED = [{"score": score, "error": 0.0, "tokens": 9} for score in (1.0, 0.0)]
MANAGED = [{"score": score, "error": 0.0} for score in (1.0, 0.0)]
MASKED = {"score": 0.0, "error": 1.0, "tokens": 0}
EXACT = [0.577, 0.577, -1.155, 0.0]
ADVANTAGES = {"ours": EXACT, "grpo": [0.866, 0.866, -0.866, -0.0], "judged": EXACT[:3]}
GOOD: dict[str, Any] = {
    "verl": "0.9.1",
    "registered": [],
    "graded": [1.0, 0.0],
    "missing": [],
    "single_turn": JUDGED,
    "agent": JUDGED,
    "legacy": MASKED,
    "agent_legacy": MASKED,
    "v1": "NoVerdictError",
    "validation": MASKED,
    "validation_metrics": {"acc": 0.5, "error": 0.25},
    "advantages": ADVANTAGES,
    "advantages_v1": ADVANTAGES,
    "patched": EXACT,
    "all_masked": "it goes on",
    "manager": MANAGED,
    "manager_outage": "NoVerdictError",
    "rate_limited": "reward.reward_manager.name=rate_limited turns ...",
    "cpus": 10,
}
OURS = EntryPoint("deepgym", "deepgym_verl.plugin", "verl.plugins")
Found = Callable[..., dict[str, Finding]]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Found:
    """Findings by name, for these answers of the other process and these packages."""
    monkeypatch.delenv("VERL_USE_EXTERNAL_PLUGINS", raising=False)
    monkeypatch.delenv("VERL_USE_EXTERNAL_MODULES", raising=False)

    def findings(
        answers: Any = GOOD,
        verl: str | None = "0.9.1",
        *,
        missing: tuple[str, ...] = (),
        trl: str | None = None,
        points: tuple[EntryPoint, ...] = (OURS,),
        processors: int = 64,
    ) -> dict[str, Finding]:
        others = {"deepgym": "1.0.0", "deepgym-verl": "1.0.0", **({"trl": trl} if trl else {})}

        def version(name: str) -> str:
            if name not in others:
                raise PackageNotFoundError(name)
            return others[name]

        monkeypatch.setattr(checking, "version", version)
        monkeypatch.setattr(check, "answers_of", lambda module: answers)
        monkeypatch.setattr(check, "entry_points", lambda group: points)
        monkeypatch.setattr(check.versions, "installed", lambda: verl)
        monkeypatch.setattr(check.versions, "missing", lambda: list(missing))
        monkeypatch.setattr(check.os, "cpu_count", lambda: processors)
        return {finding.name: finding for finding in check.findings()}

    return findings


def failed(findings: dict[str, Finding]) -> list[str]:
    return [name for name, finding in findings.items() if finding.status == "fail"]


def test_all_that_holds_is_ok(found: Found) -> None:
    findings = found()
    assert {finding.status for finding in findings.values()} == {"ok"}
    assert len(findings) == 20
    assert findings["verl"].detail == "0.9.1 (>=0.9,<0.10)"
    assert findings["plugins"].detail == "verl loads deepgym"
    assert findings["deepgym_single_turn"].detail == "reference 1, empty answer 0"
    assert findings["advantages, v1 trainer"].detail == (
        "of [1, 1, 0, none] deepgym_grpo makes [0.577, 0.577, -1.155, 0]; "
        "grpo [0.866, 0.866, -0.866, 0], so don't use it"
    )
    assert not any(finding.remedy for finding in findings.values())


def test_a_verl_whose_grpo_leaves_rows_out_itself_is_as_good(found: Found) -> None:
    findings = found({**GOOD, "advantages": {**ADVANTAGES, "grpo": EXACT}})
    assert findings["advantages, legacy trainer"].status == "ok"
    assert findings["advantages, legacy trainer"].detail.endswith("; grpo too")


def test_without_verl_our_function_alone_is_tried_and_the_install_line_is_given(found: Found) -> None:
    findings = found({"graded": [1.0, 0.0]}, None)
    assert {name: finding.status for name, finding in findings.items()} == {
        "verl": "warn",
        "compute_score": "ok",
    }
    assert findings["verl"].remedy == 'pip install "deepgym-verl[trainer]==1.0.0"'


@pytest.mark.parametrize("version", ["0.8.0", "0.7.1", "0.6.1.post2"])
def test_a_verl_that_loads_no_plugins_fails(found: Found, version: str) -> None:
    finding = found(GOOD, version)["verl"]
    assert finding.status == "fail"
    assert f"{version}, not >=0.9,<0.10" in finding.detail


@pytest.mark.parametrize("version", ["0.10.0", "1.0", "0.10.0.dev0"])
def test_a_verl_that_nobody_has_tried_is_a_warning_and_is_tried(found: Found, version: str) -> None:
    findings = found(GOOD, version)
    assert (findings["verl"].status, failed(findings)) == ("warn", [])
    assert findings["deepgym_agent"].status == "ok"


def test_what_verl_needs_without_requiring_it_fails_and_nothing_of_verl_is_asked(found: Found) -> None:
    findings = found({"graded": [1.0, 0.0]}, missing=("TransferQueue", "uvicorn"))
    assert failed(findings) == ["TransferQueue", "uvicorn"]
    assert "which it doesn't require" in findings["uvicorn"].detail
    assert findings["uvicorn"].remedy == versions.INSTALL
    assert "deepgym_agent" not in findings


@pytest.mark.parametrize(("trl", "breaks"), [("1.12.0", False), ("1.13.0", True), ("1.16.0", True)])
def test_a_trl_without_what_verl_imports_from_it_fails(found: Found, trl: str, breaks: bool) -> None:
    findings = found(trl=trl)
    assert failed(findings) == (["trl beside verl"] if breaks else [])
    if breaks:
        assert '"trl>=1.6,<1.13"' in findings["trl beside verl"].remedy


@pytest.mark.parametrize("policy", ["none", " NONE ", "other,another", ""])
def test_a_policy_that_keeps_our_plugin_out_fails_once(
    found: Found, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", policy)
    findings = found({**GOOD, "registered": ["deepgym_agent"]})
    assert failed(findings) == ["plugins"]
    assert "unset VERL_USE_EXTERNAL_PLUGINS" in findings["plugins"].remedy
    assert "names that import verl adds" not in findings


@pytest.mark.parametrize("policy", ["auto", "Auto", "other, deepgym"])
def test_a_policy_that_lets_our_plugin_in_is_ok(
    found: Found, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", policy)
    findings = found()
    assert (findings["plugins"].status, failed(findings)) == ("ok", [])


def test_a_module_that_verl_is_told_to_import_needs_no_plugin(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "mine,deepgym_verl.plugin")
    findings = found(points=())
    assert failed(findings) == []
    assert findings["plugins"].detail == "VERL_USE_EXTERNAL_MODULES names deepgym_verl.plugin"


@pytest.mark.parametrize("points", [(), (EntryPoint("deepgym", "another.plugin", "verl.plugins"),)])
def test_an_installation_without_our_entry_point_fails(found: Found, points: tuple[EntryPoint, ...]) -> None:
    findings = found(points=points)
    assert failed(findings) == ["plugins"]
    assert findings["plugins"].remedy.startswith("reinstall it")


@pytest.mark.parametrize(
    ("key", "answer", "name"),
    [
        ("graded", [0.0, 0.0], "compute_score"),
        ("graded", [1.0], "compute_score"),
        ("registered", ["deepgym_agent", "deepgym_grpo"], "names that import verl adds"),
        ("missing", ["verl.x:_gone"], "parts of verl that aren't its public interface"),
        ("single_turn", [JUDGED[1], JUDGED[1]], "deepgym_single_turn"),
        ("single_turn", [{**JUDGED[0], "tokens": 0}, JUDGED[1]], "deepgym_single_turn"),
        ("agent", [{**JUDGED[0], "error": 1.0}, JUDGED[1]], "deepgym_agent"),
        ("agent", {"error": "TypeError: _call_tool() takes 4"}, "deepgym_agent"),
        ("legacy", {**MASKED, "tokens": 9}, "a run without a verdict, legacy trainer"),
        ("agent_legacy", {**MASKED, "error": 0.0}, "an agent's, legacy trainer"),
        ("v1", MASKED, "a run without a verdict, v1 trainer"),
        ("validation", "NoVerdictError", "a run without a verdict, v1's validation"),
        ("validation_metrics", {"acc": 0.5, "error": 0.0}, "v1's validation metrics"),
        ("validation_metrics", {"acc": 0.75, "error": 0.25}, "v1's validation metrics"),
        ("validation_metrics", {"error": "TypeError: float and NoneType"}, "v1's validation metrics"),
        ("advantages", {**ADVANTAGES, "ours": ADVANTAGES["grpo"]}, "advantages, legacy trainer"),
        ("advantages_v1", {**ADVANTAGES, "judged": [0.7, 0.7, -1.4]}, "advantages, v1 trainer"),
        ("all_masked", {"error": "ValueError: no token"}, "a batch without any verdict, legacy trainer"),
        ("patched", ADVANTAGES["grpo"], "grpo with DEEPGYM_VERL_PATCH_GRPO=1"),
        ("manager", [MANAGED[0], {"score": 0.0, "error": 1.0}], "compute_score in verl's reward manager"),
        ("manager_outage", "a reward of 0.0", "a run without a verdict in verl's reward manager"),
        ("rate_limited", "", "rate_limited"),
        ("rate_limited", None, "rate_limited"),
    ],
)
def test_what_does_not_hold_fails_and_the_rest_does_not(
    found: Found, key: str, answer: Any, name: str
) -> None:
    findings = found({**GOOD, key: answer})
    assert failed(findings) == [name]
    assert findings[name].remedy


def test_advantages_that_move_are_shown_beside_those_that_are_wanted(found: Found) -> None:
    wrong = {**ADVANTAGES, "ours": ADVANTAGES["grpo"]}
    detail = found({**GOOD, "advantages": wrong})["advantages, legacy trainer"].detail
    assert "makes [0.866, 0.866, -0.866, 0], not [0.577, 0.577, -1.155, 0]" in detail


def test_a_verl_that_cannot_be_imported_is_one_finding(found: Found) -> None:
    error = {"error": "ModuleNotFoundError: No module named 'torch'"}
    findings = found({name: GOOD[name] if name == "graded" else error for name in GOOD})
    assert failed(findings) == ["import verl"]
    assert "No module named 'torch'" in findings["import verl"].detail
    assert findings["compute_score"].status == "ok"
    assert "deepgym_agent" not in findings


@pytest.mark.parametrize(("processors", "status"), [(2, "warn"), (10, "warn"), (11, "ok")])
def test_a_machine_on_which_ray_would_wait_for_ever_is_a_warning(
    found: Found, processors: int, status: str
) -> None:
    finding = found(processors=processors)["Ray's processors"]
    assert finding.status == status
    assert f"Ray counts {processors} here; the v1 trainer sets 10 aside" in finding.detail
    assert ("ray_kwargs.ray_init.num_cpus" in finding.remedy) == (status == "warn")


def test_processors_that_cannot_be_looked_up_are_a_warning(found: Found) -> None:
    finding = found({**GOOD, "cpus": {"error": "KeyError: transfer_queue"}})["Ray's processors"]
    assert (finding.status, "KeyError" in finding.detail) == ("warn", True)


def test_another_process_that_dies_is_a_finding(found: Found) -> None:
    findings = found("their process ended with -9: it said nothing")
    assert failed(findings) == ["verl's own code"]
    assert "-9" in findings["verl's own code"].detail


def test_a_check_that_breaks_is_a_finding_too_and_the_others_go_on(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(machine: bool) -> Any:
        raise OSError("no process to be had")

    monkeypatch.setattr(check, "_asked", broken)
    findings = found()
    assert failed(findings) == ["verl's own code"]
    assert "OSError: no process to be had" in findings["verl's own code"].detail
    assert findings["verl"].status == "ok"


def test_a_configuration_is_looked_at_too_and_says_itself_what_ray_is_to_count(
    found: Found, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(check, "findings_of", lambda path: [Finding("key", "fail", path.name, "no")])
    found(processors=2)
    names = [finding.name for finding in check.findings(tmp_path / "run.sh")]
    assert names[:4] == ["verl", "plugins", "key", "compute_score"]
    assert "Ray's processors" not in names


def test_a_configuration_on_which_the_check_breaks_is_a_finding(
    found: Found, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(path: Path) -> Any:
        raise RecursionError("too deep")

    found()
    monkeypatch.setattr(check, "findings_of", broken)
    findings = {finding.name: finding for finding in check.findings(tmp_path / "run.yaml")}
    assert (findings["run.yaml"].status, "too deep" in findings["run.yaml"].detail) == ("fail", True)
    assert findings["deepgym_agent"].status == "ok"


def test_packages_of_two_versions_fail(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    found()
    monkeypatch.setattr(
        checking, "version", lambda name: {"deepgym": "1.0.0", "deepgym-verl": "0.9"}.get(name, "0")
    )
    finding = {finding.name: finding for finding in check.findings()}["deepgym's own versions"]
    assert (finding.status, finding.detail) == ("fail", "deepgym-verl 0.9 beside deepgym 1.0.0")
    assert finding.remedy == 'pip install "deepgym[verl]==1.0.0"'


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.13.0", (1, 13, 0)),
        ("1.13.0.dev0", (1, 13, 0)),
        ("1.13+cpu", (1, 13)),
        ("0.9.1rc1", (0, 9, 1)),
        ("x", ()),
    ],
)
def test_a_version_is_read_as_far_as_it_is_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert versions.numbers(text) == numbers


def test_what_verl_needs_is_looked_for_by_module_and_named_by_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def there(name: str) -> object:
        if name == "uvicorn":
            raise ValueError(f"{name}.__spec__ is None")
        return None if name == "transfer_queue" else object()

    monkeypatch.setattr(versions, "find_spec", there)
    assert versions.missing() == ["TransferQueue", "uvicorn"]


def test_a_verl_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(checking, "version", none)
    assert versions.installed() is None


def test_without_verl_the_probe_asks_only_what_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.versions, "missing", list)
    monkeypatch.setattr(probe.versions, "installed", lambda: None)
    assert set(probe.questions()) == {"graded"}
    monkeypatch.setattr(probe.versions, "installed", lambda: "0.9.1")
    assert list(probe.questions()) == list(GOOD), "the order matters: see registered()"
    monkeypatch.setattr(probe.versions, "missing", lambda: ["cachetools"])
    assert set(probe.questions()) == {"graded"}


def test_a_question_that_raises_has_its_error_as_its_answer_and_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken() -> Any:
        raise AttributeError("module 'verl' has no attribute 'x'" + "x" * 1000)

    monkeypatch.setattr(probe, "questions", lambda: {"broken": broken, "whole": lambda: 1})
    probe.main(str(tmp_path / "answers.json"))
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert answers["whole"] == 1
    assert answers["broken"]["error"].startswith("AttributeError: module 'verl' has no attribute 'x'")
    assert len(answers["broken"]["error"]) == 500


@pytest.mark.local_sandbox
def test_the_probe_grades_for_real_in_its_own_process() -> None:
    answers = answers_of("deepgym_verl.probe")
    assert isinstance(answers, dict), answers
    assert answers["graded"] == [1.0, 0.0]
    assert set(answers) <= set(GOOD)


@pytest.fixture
def like_verl(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Modules of verl's names, with everything that is looked for in them."""
    modules: dict[str, ModuleType] = {}
    for name, parameters in probe_parts.PARTS.items():
        module, _, path = name.partition(":")
        place: Any = modules.setdefault(module, ModuleType(module))
        *owners, last = path.split(".")
        for owner in owners:
            place.__dict__.setdefault(owner, SimpleNamespace())
            place = getattr(place, owner)
        setattr(place, last, like(parameters or ()))
    loops = modules[f"{probe_parts.LOOPS}.agent_loop"]
    for model, fields in probe_parts.FIELDS.items():
        setattr(loops, model, SimpleNamespace(model_fields=dict.fromkeys(fields)))
    for name, made in modules.items():
        monkeypatch.setitem(sys.modules, name, made)
        for parent in (name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)):
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    return modules


def like(parameters: tuple[str, ...], more: str = "") -> Any:
    """A function with these parameters."""
    return eval(f"lambda {', '.join([*parameters, *([more] if more else [])])}: None")


_TOOLS = f"{probe_parts.LOOPS}.tool_agent_loop"
_STEP = ("self", "agent_data")


def test_a_verl_with_all_parts_misses_none(like_verl: dict[str, ModuleType]) -> None:
    assert probe_parts.missing_parts() == []


@pytest.mark.parametrize("name", probe_parts.PARTS)
def test_each_part_that_is_gone_is_named(like_verl: dict[str, ModuleType], name: str) -> None:
    module, _, path = name.partition(":")
    *owners, last = path.split(".")
    place: Any = like_verl[module]
    for owner in owners:
        place = getattr(place, owner)
    delattr(place, last)
    assert probe_parts.missing_parts() == [name]


@pytest.mark.parametrize("more", ["extra", "*, extra"])
def test_a_method_that_needs_more_has_changed(like_verl: dict[str, ModuleType], more: str) -> None:
    loop: Any = like_verl[_TOOLS].ToolAgentLoop
    loop._handle_processing_tools_state = like(_STEP, more)
    assert probe_parts.missing_parts() == [f"{_TOOLS}:ToolAgentLoop._handle_processing_tools_state"]


@pytest.mark.parametrize("more", ["extra=None", "*args, **kwargs", "*, extra=None"])
def test_a_method_that_can_take_more_has_not(like_verl: dict[str, ModuleType], more: str) -> None:
    loop: Any = like_verl[_TOOLS].ToolAgentLoop
    loop._handle_processing_tools_state = like(_STEP, more)
    assert probe_parts.missing_parts() == []


def test_a_parameter_of_another_name_is_a_change(like_verl: dict[str, ModuleType]) -> None:
    loop: Any = like_verl[_TOOLS].ToolAgentLoop
    loop._handle_processing_tools_state = like(("self", "state"))
    assert probe_parts.missing_parts() == [f"{_TOOLS}:ToolAgentLoop._handle_processing_tools_state"]


def test_a_field_of_a_row_that_is_gone_is_named(like_verl: dict[str, ModuleType]) -> None:
    loops: Any = like_verl[f"{probe_parts.LOOPS}.agent_loop"]
    del loops.AgentLoopOutput.model_fields["reward_score"]
    del loops.AgentLoopMetrics
    assert probe_parts.missing_parts() == [
        f"{probe_parts.LOOPS}.agent_loop:AgentLoopOutput.reward_score",
        f"{probe_parts.LOOPS}.agent_loop:AgentLoopMetrics.compute_score",
    ]
