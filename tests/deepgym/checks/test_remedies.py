"""What the doctor advises, on hosts of which only a few files are there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from deepgym.checks import remedies

PERMITTED = "unshare user namespace: Operation not permitted"
STATUS = "Name:\tpython\nCapEff:\t{capabilities}\nSeccomp:\t{seccomp}\nSeccomp_filters:\t0\n"
EVERYTHING = "000001ffffffffff"
NOTHING = "0000000000000000"
MOUNTS = "22 1 0:20 / /proc rw - proc proc rw\n23 22 0:21 / {place} rw - tmpfs tmpfs rw\n"

Host = Callable[..., str]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """``host(files)``: the folder of a host that says this of itself, and nothing that would be in the way."""

    def make(
        files: dict[str, str] | None = None,
        capabilities: str = EVERYTHING,
        seccomp: int = 0,
        release: str = "6.8.0-45-generic",
    ) -> str:
        said = {
            "sys/kernel/osrelease": release,
            "self/status": STATUS.format(capabilities=capabilities, seccomp=seccomp),
            "self/mountinfo": MOUNTS.format(place="/proc/sys/fs/binfmt_misc"),
            "sys/user/max_user_namespaces": "15000",
            "sys/kernel/apparmor_restrict_unprivileged_userns": "0",
            "sys/kernel/unprivileged_userns_clone": "1",
            **(files or {}),
        }
        for name, text in said.items():
            path = tmp_path / "proc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return str(tmp_path)

    return make


@pytest.fixture(autouse=True)
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def test_a_host_that_says_nothing_gets_the_step_that_failed_and_another_provider(host: Host) -> None:
    said = remedies.for_namespaces(PERMITTED, host())
    assert "the message names the step that failed (Linux 6.8, user id 1000)" in said
    assert 'pip install "deepgym[docker]==' in said


@pytest.mark.parametrize(
    ("files", "command"),
    [
        (
            {"sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
        ),
        ({"sys/user/max_user_namespaces": "0"}, "`sudo sysctl -w user.max_user_namespaces=10000`"),
        (
            {"sys/user/max_net_namespaces": "0", "sys/user/max_pid_namespaces": "0"},
            "`sudo sysctl -w user.max_pid_namespaces=10000 user.max_net_namespaces=10000`",
        ),
        (
            {"sys/kernel/unprivileged_userns_clone": "0"},
            "`sudo sysctl -w kernel.unprivileged_userns_clone=1`",
        ),
        ({"self/mountinfo": MOUNTS.format(place="/proc/kcore")}, "`--security-opt systempaths=unconfined`"),
    ],
    ids=["apparmor", "no user namespaces", "no net and pid namespaces", "debian", "covered proc"],
)
def test_a_switch_that_is_off_gets_the_line_that_turns_it_on(
    host: Host, files: dict[str, str], command: str
) -> None:
    said = remedies.for_namespaces(PERMITTED, host(files, capabilities=NOTHING))
    assert command in said
    assert " Also: " not in said


def test_a_container_gets_the_options_that_it_has_to_be_started_with(host: Host) -> None:
    covered = {"self/mountinfo": MOUNTS.format(place="/proc/kcore")}
    said = remedies.for_namespaces(PERMITTED, host(covered, seccomp=2))
    assert "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined`" in said
    assert "allows clone, unshare, setns, mount, umount2 and pivot_root" in said
    assert " Also: " not in said


def test_several_causes_are_all_named(host: Host) -> None:
    both = {
        "sys/kernel/apparmor_restrict_unprivileged_userns": "1",
        "sys/user/max_user_namespaces": "0",
    }
    said = remedies.for_namespaces(PERMITTED, host(both, capabilities=NOTHING))
    assert "AppArmor" in said
    assert " Also: The number of namespaces" in said


def test_whoever_may_administer_the_host_isnt_told_what_holds_for_ordinary_users(host: Host) -> None:
    files = {"sys/kernel/apparmor_restrict_unprivileged_userns": "1"}
    assert "AppArmor" not in remedies.for_namespaces(PERMITTED, host(files))


def test_root_without_the_capability_is_told_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "`docker run --cap-add SYS_ADMIN`" in remedies.for_namespaces(
        PERMITTED, host(capabilities=NOTHING)
    )
    assert "SYS_ADMIN" not in remedies.for_namespaces(PERMITTED, host())


@pytest.mark.parametrize(("release", "old"), [("5.10.0", True), ("5.11.0", False), ("4.19.1-x", True)])
def test_a_kernel_that_is_too_old_is_named(host: Host, release: str, old: bool) -> None:
    assert ("older than 5.11" in remedies.for_namespaces(PERMITTED, host(release=release))) is old


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"release": "5.12.9"}, "older than 5.13"),
        ({}, "the kernel's parameter `lsm=`"),
        ({"seccomp": 2}, "`--security-opt seccomp=unconfined`"),
    ],
    ids=["old", "switched off", "container"],
)
def test_a_host_without_landlock_is_told_how_to_get_it(
    host: Host, options: dict[str, object], said: str
) -> None:
    assert said in remedies.for_landlock("OSError: [Errno 38] this kernel has no Landlock", host(**options))


@pytest.mark.parametrize("advise", [remedies.for_namespaces, remedies.for_landlock])
def test_an_interpreter_in_a_closed_home_is_named(host: Host, advise: Callable[..., str]) -> None:
    assert "use an interpreter that every user can read" in advise(
        "the library can't be read by others", host()
    )


def test_a_container_with_too_few_user_ids_is_told_so(host: Host) -> None:
    why = "no user id can be given to answers: this container maps too few of them"
    assert "more user ids mapped" in remedies.for_landlock(why, host())


def test_a_landlock_that_fails_otherwise_gets_the_step_that_failed(host: Host) -> None:
    assert "names the step that failed" in remedies.for_landlock("its walls don't hold", host())
