"""The doctor on this host, on hosts that refuse namespaces, on weak ones, and where there is no Linux."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym.checks import local_sandbox
from deepgym.cli import main
from deepgym.plugins import Finding
from deepgym.providers.local import tiers
from deepgym.providers.local.provider import LocalProvider

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parents[1] / "packages" / "deepgym" / "src"
USER = 23456
DOCTOR = """
import sys
import tempfile
import deepgym.providers.local.slots as slots
slots._directory = lambda: sys.argv[1]
from deepgym.cli import main
main(["doctor", "local", *sys.argv[2:]])
"""


def words(findings: list[Finding], tier: str) -> dict[str, str]:
    return {one.name: one.word for one in findings if one.tier == tier}


def doctor(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "local", *options])
    return int(stop.value.code or 0), capsys.readouterr().out


@pytest.mark.local_sandbox
def test_this_hosts_default_tier_holds() -> None:
    found = local_sandbox()
    assert [one for one in found if one.status == "fail"] == []
    default = words(found, tiers.chosen())
    assert default["can be had"] == "by default"
    assert default["an honest answer is judged"] == "yes"
    attacks = {name: word for name, word in default.items() if name.startswith("an answer ")}
    assert len(attacks) >= 29
    assert set(attacks.values()) <= {"held", "open"}
    unsafe = words(found, "unsafe")
    assert unsafe["can be had"] == "by name"
    assert unsafe["files of a run"] == unsafe["network of a run"] == "none"
    assert not any(name.startswith("an answer ") for name in unsafe)


@pytest.mark.local_sandbox
def test_a_tier_whose_walls_dont_hold_is_shown_as_such_and_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What goes by the name of this host's default is a tier without walls."""

    def weak(slots: int, isolation: str) -> LocalProvider:
        return LocalProvider(slots=slots, isolation="unsafe")

    monkeypatch.setattr("deepgym.checks.trial.LocalProvider", weak)
    default = tiers.chosen()
    code, out = doctor(capsys)
    assert code == 1
    table, _, said = out.partition("held: tried")
    row = next(line for line in table.splitlines() if "reads a file of this user" in line)
    assert "BROKEN" in row
    assert f"fail  local: {default}: an answer reads a file of this user: it could" in said
    assert "Don't run untrusted answers behind this tier here" in said
    _, document = doctor(capsys, "--json")
    broken = [one for one in json.loads(document) if one["status"] == "fail" and one["tier"] == default]
    assert len(broken) >= 18
    assert {one["word"] for one in broken} <= {"BROKEN", "unknown"}


@pytest.mark.local_sandbox
def test_a_tier_that_nobody_gets_by_default_is_only_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    default = tiers.chosen()
    (other,) = (tier for tier in tiers.TIERS[:2] if tier != default)
    monkeypatch.setattr("deepgym.checks.tiers.missing", lambda tier: None)

    def weak(slots: int, isolation: str) -> LocalProvider:
        return LocalProvider(slots=slots, isolation=isolation if isolation == default else "unsafe")

    monkeypatch.setattr("deepgym.checks.trial.LocalProvider", weak)
    found = local_sandbox()
    assert not any(one.status == "fail" for one in found)
    assert "BROKEN" in words(found, other).values()


@pytest.mark.local_sandbox
def test_a_sandbox_in_which_no_answer_passes_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepgym.checks.trial._HONEST", "def attempt():\n    return 1\n")
    found = local_sandbox()
    named = {(one.name, one.tier): one.status for one in found}
    assert named["an honest answer is judged", tiers.chosen()] == "fail"
    assert not any(one.name.startswith("an answer ") for one in found)


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_without_linux_it_refuses_with_the_remedy_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], platform: str
) -> None:
    monkeypatch.setattr("deepgym.providers.local.tiers.Manager", None)
    monkeypatch.setattr("deepgym.providers.local.selftest.Manager", None)
    # Of the module alone: the command line's own library would look for a console of that system.
    monkeypatch.setattr("deepgym.providers.local.tiers.sys", SimpleNamespace(platform=platform))
    (found,) = local_sandbox()
    code, out = doctor(capsys)
    assert found.status == "fail"
    assert f"needs Linux, and this is {platform}" in found.detail
    assert 'pip install "deepgym[docker]==' in found.remedy
    assert "mode='docker'" in found.remedy
    assert code == 1
    assert found.detail in out
    assert found.remedy in out


def _reader(**options: Any) -> tuple[str, str] | None:
    """An interpreter that every user can run, and the folder of this package's dependencies."""
    import anyio

    site = str(Path(anyio.__file__).parent.parent)
    version = "{}.{}".format(*sys.version_info)
    for path in (
        os.path.realpath(sys.executable),
        f"/usr/bin/python{version}",
        f"/usr/local/bin/python{version}",
    ):
        probe = [
            path,
            "-s",
            "-c",
            "import sys; sys.path.insert(0, sys.argv[1]); import pydantic, anyio",
            site,
        ]
        try:
            subprocess.run(probe, check=True, capture_output=True, cwd="/", **options)
        except (OSError, subprocess.CalledProcessError):
            continue
        return path, site
    return None


@pytest.fixture(params=["root", "user"])
def denied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Any]]:
    """``denied(*deny)``: the doctor's exit status and findings on a host that refuses namespaces."""
    options: dict[str, Any] = {}
    if request.param == "root" and os.getuid() != 0:
        pytest.skip("not root")
    ordinary: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}
    if request.param == "user":
        options = ordinary
    found = _reader(**ordinary)
    if found is None:
        pytest.skip("there is no interpreter here that every user can run")
    python, site = found
    with tempfile.TemporaryDirectory(prefix="deepgym-test-") as folder:
        os.chmod(folder, 0o700)
        if options:
            os.chown(folder, USER, USER)

        def run(*deny: str) -> tuple[int, list[dict[str, str]]]:
            helper = [python, "-s", str(TESTS / "client" / "denied.py"), *deny]
            ran = subprocess.run(
                [*helper, python, "-s", "-c", DOCTOR, folder, "--json"],
                capture_output=True,
                text=True,
                cwd="/",
                env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCE}{os.pathsep}{site}"},
                **options,
            )
            assert ran.stdout, ran.stderr
            return ran.returncode, json.loads(ran.stdout)

        yield run


@pytest.mark.local_sandbox
def test_a_host_that_refuses_namespaces_is_told_what_a_container_needs(denied: Callable[..., Any]) -> None:
    code, found = denied()
    said = {(one["tier"], one["name"]): one for one in found}
    refused = said["namespaces", "can be had"]
    assert (refused["status"], refused["word"]) == ("warn", "no")
    assert "Operation not permitted" in refused["detail"]
    assert "Run `deepgym doctor`" not in refused["detail"]
    assert "--security-opt seccomp=unconfined --security-opt systempaths=unconfined" in refused["remedy"]
    assert said["landlock", "can be had"]["word"] == "by default"
    assert said["landlock", "disk of a run"]["status"] == "warn"
    opened = {one["name"] for one in found if one["word"] == "open"}
    assert {"an answer fills the disk with many files", "an answer makes more files than allowed"} <= opened
    assert [one for one in found if one["status"] == "fail"] == []
    assert code == 0


@pytest.mark.local_sandbox
def test_a_host_without_either_tier_exits_1_and_runs_nothing(denied: Callable[..., Any]) -> None:
    code, found = denied("--without-landlock")
    assert code == 1
    said = {(one["tier"], one["name"]): one for one in found}
    assert said["namespaces", "can be had"]["status"] == said["landlock", "can be had"]["status"] == "fail"
    assert "no Landlock" in said["landlock", "can be had"]["detail"]
    assert "lsm=" in said["landlock", "can be had"]["remedy"]
    assert "mode='docker'" in said["", "local sandbox"]["remedy"]
    assert not any(one["name"].startswith("an ") for one in found)
