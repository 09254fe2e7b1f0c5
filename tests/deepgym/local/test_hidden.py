"""What is installed or checked out where the sandbox can look isn't shown to it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

import pytest

from deepgym.exceptions import SandboxError
from deepgym.providers.local.zygotes import Manager, _hidden, interpreter
from deepgym.sandboxed import kernel


def test_the_users_own_folder_is_hidden(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) in _hidden()


@pytest.mark.parametrize("place", ["/", "/usr", "/usr/bin", sysconfig.get_path("stdlib"), sys.base_prefix])
def test_a_user_in_the_interpreters_own_folder_hides_nothing_of_it(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    hidden = _hidden()
    needed = [sysconfig.get_path("stdlib"), interpreter(), "/usr/bin/env"]
    assert not [one for one in hidden for need in needed if os.path.realpath(need).startswith(one + "/")]
    assert place not in hidden


@pytest.mark.skipif(not os.access("/usr/local", os.W_OK), reason="/usr/local can't be written by this user")
def test_a_project_below_usr_isnt_visible_to_its_answers(local_sandbox: None) -> None:
    """Many container images keep the project in /usr/src; its tests and expected values lie there."""
    with tempfile.TemporaryDirectory(dir="/usr/local") as folder:
        os.chmod(folder, 0o755)
        pathlib.Path(folder, "secret.txt").write_text("42", encoding="utf-8")
        code = f"""
from deepgym import Case, Cases, DeepGym, Environment
env = Environment(name="e", task="t", verify=Cases(function="f", cases=(Case(expected=[]),)))
answer = "import os\\ndef f(): return os.listdir({folder!r})"
with DeepGym() as dg:
    print(dg.run(env, answer).passed)
"""
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
    assert (ran.stdout.strip(), ran.returncode) == ("True", 0), ran.stderr


def test_an_interpreter_in_a_place_that_runs_have_for_themselves_is_refused(
    local_sandbox: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library couldn't be shown, and answers that import from it would be blamed."""
    monkeypatch.setattr(sys, "base_prefix", "/tmp/python")
    with pytest.raises(SandboxError, match="/tmp/python, a place that every run has for itself"):
        Manager("namespaces")


def test_mount_points_with_odd_names_are_read_back() -> None:
    assert kernel._ESCAPE.sub(kernel._unescaped, rb"/a\040b\134c") == b"/a b\\c"


@pytest.mark.skipif(
    os.path.realpath(os.__file__).startswith("/usr/"), reason="this interpreter's library is always shown"
)
def test_a_library_that_cant_be_shown_is_our_failure_and_no_answers(
    local_sandbox: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "base_prefix", "/var/nowhere")
    manager = Manager("namespaces")
    try:
        with pytest.raises(SandboxError, match="library isn't visible"):
            manager.zygote("solution", 0, None, [])
    finally:
        manager.close()
