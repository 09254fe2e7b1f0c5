"""What a run is bounded by where no control group can be made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deepgym import DeepGym
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits
from deepgym.providers.local import cgroup

pytestmark = pytest.mark.local_sandbox

_CASES = Cases(function="f", cases=(Case(args=(1,), expected=2),))
_ENV = Environment(
    name="t",
    task="t",
    verify=_CASES,
    limits=EnvironmentLimits(wall=10.0, memory=128 << 20, processes=8),
)


@pytest.fixture(scope="module")
def without(local_sandbox: None, own_slots: str) -> Iterator[DeepGym]:
    """A client on a host where no control group can be made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cgroup, "_places", list)
        with DeepGym(slots=1) as client:
            client.run(_ENV, "def f(x): return x + 1")
            yield client


def test_without_control_groups_each_process_is_bounded_and_the_result_says_so(without: DeepGym) -> None:
    result = without.run(_ENV, "def f(x): return x + 1")
    assert result.passed
    assert (result.enforced["memory"], result.enforced["pids"]) == ("rlimit", "rlimit")
    assert without.provider.capabilities.memory in ("enforced", "rlimit")


@pytest.mark.parametrize(
    "answer",
    [
        "held = []\nwhile True: held.append(bytearray(1 << 24))",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import os\nfor _ in range(6): os.fork()\nheld = []\nwhile True: held.append(bytearray(1 << 22))",
    ],
    ids=["memory", "processes", "both"],
)
def test_without_control_groups_a_bomb_is_the_answers_own_0(without: DeepGym, answer: str) -> None:
    env = _ENV.model_copy(update={"limits": _ENV.limits.model_copy(update={"wall": 1.0})})
    (result,) = without.run_batch(env, [answer]).results
    assert (result.has_verdict, result.score) == (True, 0.0), result
    assert without.run(_ENV, "def f(x): return x + 1").passed
