from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import deepgym
from deepgym import DeepGym
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits

PATIENCE = 30.0
_SOURCE = pathlib.Path(deepgym.__file__).parent.parent

_PREAMBLE = """
import json, os, sys, time
import deepgym.providers.local.slots as _slots
_slots._directory = lambda: os.environ["SLOTS"]
from deepgym import AsyncDeepGym, DeepGym
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program

def environment(wall=20.0, function="f", **fields):
    cases = Cases(function=function, cases=(Case(args=(1,), expected=2),))
    return Environment(name="t", task="t", verify=cases, limits=EnvironmentLimits(wall=wall), **fields)

RIGHT = "def f(x): return x + 1"
SLOW = "import time\\ndef f(x):\\n    time.sleep(%s)\\n    return x + 1"

def say(*words):
    print(*words, flush=True)
"""


@pytest.fixture(scope="session", autouse=True)
def own_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Slots that no other process of this user takes part in: its batch mustn't hold these tests up."""
    folder = str(tmp_path_factory.mktemp("slots"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepgym.providers.local.slots._directory", lambda: folder)
        yield folder


@pytest.fixture(scope="session")
def dg(local_sandbox: None, own_slots: str) -> Iterator[DeepGym]:
    with DeepGym(slots=2) as client:
        yield client


@pytest.fixture(scope="session")
def env() -> Environment:
    """``f(1)`` must be 2."""
    cases = Cases(function="f", cases=(Case(args=(1,), expected=2),))
    return Environment(name="add-one", task="t", verify=cases, limits=EnvironmentLimits(wall=20.0))


class Script:
    """A Python process of its own whose sandboxes can all be told from everybody else's."""

    def __init__(
        self, folder: pathlib.Path, text: str, slots: str, command: list[str], **options: Any
    ) -> None:
        self.marker = f"source-{uuid.uuid4().hex}"
        link = folder / self.marker
        link.symlink_to(_SOURCE)
        path = folder / f"{self.marker}.py"
        path.write_text(_PREAMBLE + textwrap.dedent(text))
        path.chmod(0o644)
        paths = [str(link), options.pop("path", ""), os.environ.get("PYTHONPATH", "")]
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "SLOTS": slots,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        self.process = subprocess.Popen(
            [*command, "-W", "error", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            text=True,
            **options,
        )

    def said(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.finish()
        return line.strip()

    def finish(self) -> tuple[str, str]:
        """Wait for the end: the rest of both outputs."""
        return self.process.communicate(timeout=2 * PATIENCE)

    def result(self) -> Any:
        """The JSON that it prints last, once it has ended well."""
        out, err = self.finish()
        assert self.process.returncode == 0, (out, err)
        return json.loads(out.splitlines()[-1])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def sandboxes(self) -> set[int]:
        """Processes, other than itself, that stand in a sandbox of this script."""
        found = set()
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != self.process.pid:
                try:
                    command = pathlib.Path(f"/proc/{name}/cmdline").read_bytes()
                except OSError:
                    continue
                if self.marker.encode() in command and f"{self.marker}.py".encode() not in command:
                    found.add(int(name))
        return found

    def wait_for_sandboxes(self, least: int) -> None:
        """At least so many of its processes must come to be."""
        until = time.monotonic() + PATIENCE
        while len(self.sandboxes()) < least and time.monotonic() < until:
            time.sleep(0.02)
        assert len(self.sandboxes()) >= least

    def groups(self) -> list[str]:
        """Control groups of this script."""
        return [
            os.path.join(root, name)
            for root, names, _ in os.walk("/sys/fs/cgroup", onerror=lambda error: None)
            for name in names
            if name.startswith(f"deepgym-{self.process.pid}-")
        ]

    def wait_until_gone(self) -> None:
        """No process and no control group of it may be left."""
        until = time.monotonic() + PATIENCE
        while (self.sandboxes() or self.groups()) and time.monotonic() < until:
            time.sleep(0.02)
        assert not self.sandboxes()
        assert not self.groups()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for pid in self.sandboxes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def script(local_sandbox: None, tmp_path: pathlib.Path) -> Iterator[Callable[..., Script]]:
    """``script(text)``: start a Python process that has ``environment``, ``RIGHT``, ``SLOW`` and ``say``."""
    started: list[Script] = []
    slots = tmp_path / "slots"
    slots.mkdir()

    def start(text: str, command: list[str] | None = None, **options: Any) -> Script:
        folder = options.pop("folder", tmp_path)
        one = Script(folder, text, options.pop("slots", str(slots)), command or [sys.executable], **options)
        started.append(one)
        return one

    yield start
    for one in started:
        one.end()
