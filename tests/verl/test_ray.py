"""`compute_score` and the loops in Ray's own processes: what comes through, and how much at once."""

from __future__ import annotations

import importlib
import os
import secrets
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepgym.exceptions import NoVerdictError
from deepgym.models import RunResult
from deepgym_verl.info import KEYS

HERE = Path(__file__).parent
sys.path.append(str(HERE))
w: Any = importlib.import_module("workers")
judges: Any = importlib.import_module("ray_judges")
sys.path.remove(str(HERE))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ray
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
    from verl.experimental.reward_loop.reward_loop import RewardLoopManager, RewardLoopWorker

pytestmark = pytest.mark.local_sandbox

GOOD = "def add(a, b):\n    return a + b"
HALF = "def add(a, b):\n    return a"
WRONG = "def add(a, b):\n    return None"
LOST = GOOD + judges.OUTAGE
#: Seconds for anything that is waited for.
PATIENCE = 300


_ADD = """
name = "add"
task = "Write add(a, b), which returns the sum of two numbers."
limits.wall = {wall}

[verify]
kind = "cases"
function = "add"
cases = [{{ args = [1, 2], expected = 3 }}, {{ args = [4, 0], expected = 4 }}]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ray_tests")
    for name, wall in (("add", 2.0), ("quick", 0.1)):
        (folder / name).mkdir()
        (folder / name / "environment.toml").write_text(_ADD.format(wall=wall), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", autouse=True)
def cluster(place: Path) -> Iterator[None]:
    """A Ray of our own on loopback, with cores enough for actors that wait most of the time."""
    path = os.pathsep.join([str(HERE), judges.offer(place / "offers"), os.environ.get("PYTHONPATH", "")])
    token = place / "token"
    token.write_text(secrets.token_hex(32))
    # Ray's sockets have their place there, and their paths must be short.
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as short,
    ):
        for name, value in {
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": path,
            judges.PLACE: str(place),
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "RAY_AUTH_TOKEN_PATH": str(token),
        }.items():
            patch.setenv(name, value)
        ray.init(
            address="local",
            num_cpus=32,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100_000_000,
            _node_ip_address="127.0.0.1",
            _temp_dir=short,
            _system_config={"prestart_worker_first_driver": False},
        )
        try:
            yield
        finally:
            ray.shutdown()


def config(model: str, place: Path, mode: str, *more: str, env: str = "add") -> Any:
    kwargs = "+reward.custom_reward_function.reward_kwargs"
    return w.config(model, f"{kwargs}.mode={mode}", f"{kwargs}.env={place / env}", *more)


def worker(cfg: Any) -> Any:
    return ray.remote(RewardLoopWorker).remote(cfg)


def ask(actor: Any, tokenizer: Any, answer: str) -> Any:
    row = w.row_of(w.Sample([], "add"), "p")
    return actor.compute_score.remote(w.response(tokenizer, w.code(answer), row))


@pytest.fixture(scope="module")
def tokenizer(tiny_model: str) -> Any:
    return w.tokenizer_of(tiny_model)


# --- what comes through --------------------------------------------------------------------------------------


def test_each_reward_manager_has_scores_and_the_missing_verdict_come_through_ray(
    tiny_model: str, place: Path, tokenizer: Any
) -> None:
    managers = ("naive", "dapo", "gdpo", "rate_limited")
    actors = {
        name: worker(config(tiny_model, place, "outage", f"reward.reward_manager.name={name}"))
        for name in managers
    }
    asked = {
        name: [ask(actors[name], tokenizer, text) for text in (GOOD, HALF, WRONG, LOST)] for name in managers
    }
    for name in managers[:3]:
        *judged, lost = asked[name]
        found = ray.get(judged, timeout=PATIENCE)
        assert [one["reward_score"] for one in found] == [1.0, 0.5, 0.0]
        assert all(tuple(one["reward_extra_info"]) == KEYS for one in found)
        with pytest.raises(NoVerdictError) as caught:
            ray.get(lost, timeout=PATIENCE)
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert (result.error_type, result.has_verdict, result.env_name) == ("network_error", False, "add")
        assert "default_agent_loop=deepgym_single_turn" in str(caught.value)
    with pytest.raises(ray.exceptions.RayActorError, match="rate_limited turns a run without a verdict"):
        ray.get(asked["rate_limited"], timeout=PATIENCE)
    for actor in actors.values():
        ray.kill(actor)


def test_in_the_legacy_trainers_processes_the_loop_masks_what_compute_score_would_end_the_run_for(
    tiny_model: str, place: Path, tokenizer: Any
) -> None:
    cfg = config(tiny_model, place, "outage", "reward.num_workers=1")
    rewards = RewardLoopManager(cfg)
    names = ("single_turn_agent", "deepgym_single_turn")
    texts = (GOOD, GOOD, WRONG, LOST)
    script = {f"p{number}": [[w.code(text)]] for number, text in enumerate(texts)}
    actors = [
        ray.remote(AgentLoopWorker).remote(
            cfg, w.Model(tokenizer, script), None, rewards.reward_loop_worker_handles
        )
        for _ in names
    ]
    batches = [w.batch_of([w.Sample([], agent=name) for _ in texts]) for name in names]
    raised, masked = [
        actor.generate_sequences.remote(batch) for actor, batch in zip(actors, batches, strict=True)
    ]
    with pytest.raises(NoVerdictError, match="default_agent_loop=deepgym_single_turn") as caught:
        ray.get(raised, timeout=PATIENCE)
    assert caught.value.result.error_type == "network_error"
    batch = w.Batch(ray.get(masked, timeout=PATIENCE), cfg, w.Model(tokenizer, {}), ["a"] * 4)
    assert batch.scores == [1.0, 1.0, 0.0, 0.0]
    assert batch.told("error") == [0.0, 0.0, 0.0, 1.0]
    assert w.advantages(batch) == [0.577, 0.577, -1.155, 0.0]
    for actor in [*actors, *rewards.reward_loop_workers]:
        ray.kill(actor)


# --- how much at once ----------------------------------------------------------------------------------------


def test_500_calls_at_once_in_two_workers_take_no_more_slots_than_the_host_has(
    tiny_model: str, place: Path, tokenizer: Any
) -> None:
    rewards = RewardLoopManager(config(tiny_model, place, "noted", "reward.num_workers=2"))
    actors = rewards.reward_loop_workers
    answers = [(GOOD, HALF, GOOD, WRONG)[number % 4] for number in range(500)]
    asked = [ask(actors[number % 2], tokenizer, answer) for number, answer in enumerate(answers)]
    found = ray.get(asked, timeout=PATIENCE)
    assert [one["reward_score"] for one in found] == [1.0, 0.5, 1.0, 0.0] * 125
    assert all(one["reward_extra_info"]["error"] == 0.0 for one in found)
    assert all(one["reward_extra_info"]["model_fault"] == 0.0 for one in found)
    notes = (place / "noted").read_text(encoding="utf-8").split()
    taken = most = 0
    for note in notes:
        taken += 1 if note[0] == "+" else -1
        most = max(most, taken)
    assert most == 2
    assert taken == 0
    runs = Counter(note[1:] for note in notes if note[0] == "+")
    assert len(runs) == 2
    assert min(runs.values()) >= 250
    for actor in actors:
        ray.kill(actor)


def test_while_some_runs_wait_others_of_the_same_worker_come_back(
    tiny_model: str, place: Path, tokenizer: Any
) -> None:
    actor = worker(config(tiny_model, place, "gated"))
    waiting = [ask(actor, tokenizer, GOOD + judges.GATED) for _ in range(3)]
    others = [ask(actor, tokenizer, GOOD) for _ in range(50)]
    assert [one["reward_score"] for one in ray.get(others, timeout=PATIENCE)] == [1.0] * 50
    over, _ = ray.wait(waiting, num_returns=3, timeout=0)
    assert over == []
    (place / "gate").touch()
    assert [one["reward_score"] for one in ray.get(waiting, timeout=PATIENCE)] == [1.0] * 3
    ray.kill(actor)


def test_a_judge_that_hangs_ends_without_a_verdict_and_the_worker_goes_on(
    tiny_model: str, place: Path, tokenizer: Any
) -> None:
    deadline = "+reward.custom_reward_function.reward_kwargs.deadline=8"
    actor = worker(config(tiny_model, place, "gated", deadline, env="quick"))
    hanging = [ask(actor, tokenizer, GOOD + judges.HANGS) for _ in range(4)]
    for one in hanging:
        with pytest.raises(NoVerdictError) as caught:
            ray.get(one, timeout=PATIENCE)
        assert caught.value.result.error_type == "provider_error"
        assert "the judge hangs" in caught.value.result.error
    assert ray.get(ask(actor, tokenizer, GOOD), timeout=PATIENCE)["reward_score"] == 1.0
    ray.kill(actor)
