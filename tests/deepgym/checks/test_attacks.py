"""The doctor's attacks: each works where nothing stands in its way, or it would prove nothing."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from typing import Any

import pytest

from deepgym.checks import trial
from deepgym.checks.attack import LIMITS, Attack
from deepgym.checks.attacks import ATTACKS, LEFTOVERS, STEALS
from deepgym.checks.bait import Bait
from deepgym.checks.trial import Trial, put_on_trial

pytestmark = pytest.mark.local_sandbox

#: Of these a tier without walls has rlimits, and its children's end.
BOUNDED = {
    "takes more memory than allowed",
    "writes a larger file than allowed",
    "leaves a process behind",
    "runs for ever",
    "finds the expected values in its memory",
}
#: And of these a control group, where there is one.
GROUPED = {"takes more memory in several processes": "memory", "starts more processes than allowed": "pids"}
NAMES = [attack.name for attack in (*ATTACKS, STEALS, *LEFTOVERS)] + ["runs for ever"]


@pytest.fixture(scope="module")
def unwalled() -> Trial:
    return put_on_trial("unsafe")


def outcome(found: Trial, name: str) -> bool | None:
    return next(one.could for one in found.outcomes if one.attack.name == name)


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_works_without_walls_unless_something_else_bounds_it(unwalled: Trial, name: str) -> None:
    assert [one.attack.name for one in unwalled.outcomes] == NAMES
    if name == "starts more processes than allowed" and unwalled.enforced["pids"] != "enforced":
        assert outcome(unwalled, name) is (os.geteuid() == 0)  # the rlimit doesn't bind root
    elif name in GROUPED:
        assert outcome(unwalled, name) is (unwalled.enforced[GROUPED[name]] != "enforced")
    else:
        assert outcome(unwalled, name) is (name not in BOUNDED)


def test_the_attacks_on_limits_work_where_the_limits_are_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["takes more memory than allowed", "writes a larger file than allowed", *GROUPED]
    far: dict[str, Any] = {"memory": 4 << 30, "file_size": 1 << 30, "processes": 5000}
    monkeypatch.setattr(trial, "LIMITS", {**LIMITS, **far})
    monkeypatch.setattr(trial, "ATTACKS", [attack for attack in ATTACKS if attack.name in names])
    found = put_on_trial("unsafe")
    assert {name: outcome(found, name) for name in names} == dict.fromkeys(names, True)


def test_the_search_for_expected_values_finds_one_that_is_there() -> None:
    """The sandbox never holds one, so the attack is shown to work in a process that does."""
    attack = next(one for one in ATTACKS if "expected values" in one.name)
    hidden = f"held = ['deepgym-expected-{secrets.token_hex(16)}']\n"
    for secret, found in ((hidden, "True"), (hidden.replace("-expected", "_expected"), "False")):
        code = f"{attack.answer()}\n{secret}print(attempt())\n"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert ran.stdout.strip() == found, ran.stderr


def test_no_attack_works_behind_namespaces() -> None:
    found = put_on_trial("namespaces")
    assert [one.attack.name for one in found.outcomes] == NAMES
    open_ones = {name for name, wall in GROUPED.items() if found.enforced[wall] != "enforced"}
    assert {one.attack.name for one in found.outcomes if one.could is not False} <= open_ones


def test_only_an_attack_that_ran_and_failed_counts_as_held(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, str, bool | None, str]] = [
        ("files", "return False", False, "could not"),
        ("files", "return True", True, "it could"),
        ("files", "return None", True, "it could"),
        ("files", "raise KeyError('a mistake')", None, "raised: KeyError"),
        ("files", "return object()", None, "raised: TypeError"),
        ("files", "os._exit(0)", None, "solution_error"),
        ("files", "return (", None, "solution_error"),
        ("memory", "os.kill(os.getpid(), 9)", False, "its run was ended"),
        ("memory", "raise KeyError('a mistake')", None, "raised: KeyError"),
    ]
    attacks = [Attack(str(number), wall, body) for number, (wall, body, _, _) in enumerate(tried)]
    monkeypatch.setattr(trial, "ATTACKS", attacks)
    found = put_on_trial("namespaces").outcomes
    for (_, _, could, said), one in zip(tried, found, strict=False):
        assert one.could is could, one
        assert said in one.detail


def test_a_process_that_outlives_its_run_is_seen_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "ATTACKS", [])
    monkeypatch.setattr(Bait, "left", lambda self: [4711])
    monkeypatch.setattr(Bait, "_clear", lambda self: None)
    found = put_on_trial("namespaces")
    assert outcome(found, "leaves a process behind") is True
    assert "process 4711 is still there" in {one.detail for one in found.outcomes}


def test_the_bait_is_gone_afterwards() -> None:
    with Bait() as bait:
        known = bait.constants()
        assert os.path.exists(str(known["FILE"]))
        modes = [os.stat(str(known[name])).st_mode & 0o777 for name in ("FILE", "FOLDER")]
        assert modes == [0o666, 0o777]  # what keeps an answer out must be a wall
        stray = f"/tmp/deepgym-doctor-{bait.token}"
        open(stray, "w").close()
        command = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'dg%s', 0, 0, 0); print(1, flush=True); time.sleep(60)"
        left = subprocess.Popen([sys.executable, "-c", command % bait.token], stdout=subprocess.PIPE)
        try:
            assert left.stdout is not None
            left.stdout.readline()
            assert bait.left() == [left.pid]
        except BaseException:
            left.kill()
            raise
    with left:
        assert left.wait(30) == -9
    assert not os.path.exists(stray)
    assert not os.path.exists(str(known["FOLDER"]))
    assert bait.process.poll() is not None
