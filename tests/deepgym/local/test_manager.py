"""The process that zygotes come from, when whoever asks it for them is gone in the middle."""

from __future__ import annotations

import array
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from deepgym.providers.local import cgroup
from deepgym.providers.local.zygotes import Manager

pytestmark = pytest.mark.local_sandbox
PATIENCE = 30.0


@pytest.fixture
def manager(local_sandbox: None) -> Iterator[Manager]:
    made = Manager("namespaces")
    yield made
    made.close()


@pytest.fixture
def groups() -> None:
    group = cgroup.Group.make(f"deepgym-{os.getpid()}-tried")
    if group is None:
        pytest.skip("this process can't make control groups here")
    group.remove()


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_a_request_that_nobody_waits_for_any_more_costs_the_manager_nothing(manager: Manager) -> None:
    for role in ("solution", "verifier", "no such role"):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"role": role, "slot": 900, "cpu": None, "uid": 0x70000000, "cgroups": ["/nowhere/x/procs"]}
        rights = array.array("i", [theirs.fileno()])
        ours.close()
        manager.control.sendmsg(
            [json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        )
        theirs.close()
    zygote = manager.zygote("solution", 901, None, [])
    assert manager.alive()
    zygote.close()


ENDS = """
import os, sys
from deepgym.providers.local.cgroup import Group, prefixes
from deepgym.providers.local.zygotes import Manager
manager = Manager("namespaces")
Group.make(f"deepgym-{os.getpid()}-0")
Group.make(f"deepgym-{os.getpid()}-session0")
print(*prefixes(), flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def left(prefixes: list[str]) -> list[str]:
    return [path for prefix in prefixes for path in _beginning_with(prefix)]


def _beginning_with(prefix: str) -> list[str]:
    place, _, name = prefix.rpartition("/")
    return [found for found in os.listdir(place) if found.startswith(name)]


def test_groups_that_a_killed_parent_had_asked_nothing_in_yet_go_too(
    local_sandbox: None, groups: None
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        prefixes = parent.stdout.readline().split()
        assert len(left(prefixes)) >= 2
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.wait() == -9
    assert eventually(lambda: not left(prefixes)), left(prefixes)


def test_a_manager_that_is_closed_leaves_its_parents_other_groups(manager: Manager, groups: None) -> None:
    other = cgroup.Group.make(f"deepgym-{os.getpid()}-other")
    assert other is not None
    manager.close()
    assert left(cgroup.prefixes())
    other.remove()


IGNORES = """
import signal
from deepgym import Case, Cases, DeepGym, Environment
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
answer = '''
def f():
    import signal
    ignored = [n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return sorted(int(n) for n in {*ignored, *blocked} - {signal.SIGPIPE, signal.SIGXFSZ})
'''
env = Environment(name="t", task="t", verify=Cases(function="f", cases=(Case(args=(), expected=[]),)))
with DeepGym() as dg:
    print(dg.run(env, answer).score)
"""


def test_what_a_background_job_ignores_no_answer_ignores(local_sandbox: None) -> None:
    ran = subprocess.run([sys.executable, "-c", IGNORES], capture_output=True, text=True, check=True)
    assert ran.stdout == "1.0\n"
