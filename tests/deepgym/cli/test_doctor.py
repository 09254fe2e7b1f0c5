from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import plugins
from deepgym.plugins import Finding, PluginError, UnknownPluginError

OK = Finding("namespaces", "ok", "user, pid, mount, ipc, net", remedy="nothing to do")
WARN = Finding("cgroup", "warn", "not writable", remedy="delegate a cgroup")
FAIL = Finding("seccomp", "fail", "no filter\x1b[1m", remedy="enable CONFIG_SECCOMP")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Checks by name, ``local`` among them; a value that is an exception is raised when it is loaded."""
    known: dict[str, Any] = {"local": lambda: [OK]}
    local = SimpleNamespace(local_sandbox=lambda: known["local"]())
    monkeypatch.setitem(sys.modules, "deepgym.checks", local)  # type: ignore[arg-type]
    monkeypatch.setattr(plugins, "names", lambda group: sorted(set(known) - {"local"}))

    def load(group: str, name: str) -> object:
        if name not in known:
            raise UnknownPluginError(f"unknown check {name!r}")
        if isinstance(known[name], Exception):
            raise known[name]
        return known[name]

    monkeypatch.setattr(plugins, "load", load)
    return known


def test_all_ok_exits_0_and_needs_no_remedy(checks: dict[str, Any], cli: Any) -> None:
    ran = cli("doctor")
    assert ran.code == 0
    assert ran.out == "ok    local: namespaces: user, pid, mount, ipc, net\n"


def test_a_warning_shows_its_remedy_and_exits_0(checks: dict[str, Any], cli: Any) -> None:
    checks["local"] = lambda: [OK, WARN]
    ran = cli("doctor")
    assert ran.code == 0
    assert "warn  local: cgroup: not writable\n      remedy: delegate a cgroup\n" in ran.out


def test_a_failure_exits_1_and_cannot_steer_the_terminal(checks: dict[str, Any], cli: Any) -> None:
    checks["local"] = lambda: [FAIL]
    ran = cli("doctor")
    assert ran.code == 1
    assert "no filter\\x1b[1m" in ran.out


def test_the_local_sandbox_comes_first_then_the_plugins(checks: dict[str, Any], cli: Any) -> None:
    checks.update(verl=lambda: [WARN], axolotl=lambda: [OK])
    lines = [line for line in cli("doctor").out.split("\n") if line and not line.startswith(" ")]
    assert [line.split()[1] for line in lines] == ["local:", "axolotl:", "verl:"]


def test_a_name_runs_that_check_alone(checks: dict[str, Any], cli: Any) -> None:
    checks.update(verl=lambda: [WARN], axolotl=lambda: [FAIL])
    ran = cli("doctor", "verl")
    assert ran.code == 0
    assert "local" not in ran.out
    assert "axolotl" not in ran.out


def test_an_unknown_name_exits_2(checks: dict[str, Any], cli: Any) -> None:
    ran = cli("doctor", "nonesuch")
    assert ran.code == 2
    assert "unknown check 'nonesuch'" in ran.err


def raising() -> list[Finding]:
    raise OSError("no such device")


@pytest.mark.parametrize(
    ("check", "detail"),
    [
        (raising, "OSError: no such device"),
        (lambda: ["fine"], "it returned str, not Finding"),
        (lambda: None, "TypeError"),
        (PluginError("'bad' of deepgym-bad 1.0.0 can't be loaded"), "deepgym-bad 1.0.0"),
    ],
)
def test_a_broken_check_is_a_failed_finding_and_stops_no_other(
    checks: dict[str, Any], cli: Any, check: Any, detail: str
) -> None:
    checks.update(bad=check, good=lambda: [OK])
    ran = cli("doctor")
    assert ran.code == 1
    assert detail in ran.out
    assert "ok    good: " in ran.out


def test_a_broken_local_check_is_a_failed_finding(checks: dict[str, Any], cli: Any) -> None:
    checks["local"] = raising
    assert "fail  local: local: the check itself failed: OSError" in cli("doctor").out


def test_json_is_one_document(checks: dict[str, Any], cli: Any) -> None:
    checks["local"] = lambda: [OK, FAIL]
    ran = cli("doctor", "--json")
    assert ran.code == 1
    assert [(found["check"], found["status"]) for found in json.loads(ran.out)] == [
        ("local", "ok"),
        ("local", "fail"),
    ]


def beside(name: str, tier: str, word: str, status: Any = "ok", **others: str) -> Finding:
    return Finding(name, status, f"{name} of {tier}", tier=tier, word=word, **others)


def test_findings_about_tiers_stand_side_by_side(checks: dict[str, Any], cli: Any) -> None:
    checks["local"] = lambda: [
        beside("can be had", "strong", "by default"),
        beside("can be had", "weak", "by name"),
        beside("reads files", "strong", "held"),
        beside("fills the disk", "weak", "open"),
    ]
    ran = cli("doctor")
    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines()[:4]]
    assert rows == [
        ["strong", "weak"],
        ["can", "be", "had", "by", "default", "by", "name"],
        ["reads", "files", "held", "-"],
        ["fills", "the", "disk", "-", "open"],
    ]
    assert "local:" not in ran.out


def test_what_does_not_hold_in_a_tier_is_said_in_words_too(checks: dict[str, Any], cli: Any) -> None:
    checks["local"] = lambda: [
        beside("reads files", "strong", "BROKEN", "fail", remedy="close them"),
        beside("lists files", "strong", "BROKEN", "fail", remedy="close them"),
        beside("memory", "strong", "rlimit", "warn", remedy="make a group"),
        beside("network", "strong", "enforced"),
    ]
    ran = cli("doctor")
    assert ran.code == 1
    assert "fail  local: strong: reads files: reads files of strong\n      remedy: close them\n" in ran.out
    assert "fail  local: strong: lists files: lists files of strong\n      remedy: as above\n" in ran.out
    assert "warn  local: strong: memory: memory of strong\n      remedy: make a group\n" in ran.out
    assert "local: strong: network" not in ran.out


def test_a_table_can_neither_steer_the_terminal_nor_be_marked_up(checks: dict[str, Any], cli: Any) -> None:
    checks["local"] = lambda: [beside("a\x1b[2Jb [bold]c[/bold]", "t\x1b[1m", "[red]w\x07[/red]")]
    out = cli("doctor").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[bold]c[/bold]" in out
    assert "[red]w\\x07[/red]" in out


def test_json_names_the_tier_of_a_finding(checks: dict[str, Any], cli: Any) -> None:
    checks["local"] = lambda: [beside("reads files", "strong", "held"), OK]
    found = json.loads(cli("doctor", "local", "--json").out)
    assert [(one["tier"], one["word"], one["name"]) for one in found] == [
        ("strong", "held", "reads files"),
        ("", "", "namespaces"),
    ]


def test_a_configuration_goes_to_the_check_that_takes_one(
    checks: dict[str, Any], cli: Any, tmp_path: Path
) -> None:
    def looks(config: Path | None = None) -> list[Finding]:
        return [Finding("configuration", "ok", "none" if config is None else config.read_text())]

    checks["verl"] = looks
    (tmp_path / "run.yaml").write_text("trainer: 1")
    assert cli("doctor", "verl").out == "ok    verl: configuration: none\n"
    assert cli("doctor", "verl", str(tmp_path / "run.yaml")).out == "ok    verl: configuration: trainer: 1\n"


def test_a_configuration_that_nobody_reads_exits_2(checks: dict[str, Any], cli: Any, tmp_path: Path) -> None:
    checks["trl"] = lambda: [OK]
    (tmp_path / "run.yaml").write_text("")
    for name in ("trl", "local"):
        ran = cli("doctor", name, str(tmp_path / "run.yaml"))
        assert ran.code == 2
        assert f"the check {name} looks at no configuration: deepgym doctor {name}" in ran.err
    ran = cli("doctor", "trl", str(tmp_path / "missing.yaml"))
    assert ran.code == 2
    assert "there is no file" in ran.err
