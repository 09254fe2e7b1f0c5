"""What verl's v1 worker writes for its trainer where samples have no verdict, and what the trainer makes of it.

The worker is verl's own `AgentLoopWorkerTQ`, in this process; what it writes to TransferQueue is kept here.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deepgym.contract.evidence import Phase
from deepgym.exceptions import NetworkError, NoVerdictError, SandboxDiedError
from deepgym.testing import Behaviour, FakeProvider, FakeSessions, Fault, FaultyProvider
from deepgym_verl import siblings, surroundings
from deepgym_verl.info import KEYS

sys.path.append(str(Path(__file__).parent))
w: Any = importlib.import_module("workers")
sys.path.remove(str(Path(__file__).parent))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import numpy as np
    import transfer_queue
    from verl.trainer.ppo.metric_utils import process_validation_metrics
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
    from verl.utils import tensordict_utils

    from verl import DataProto

GOOD = w.code("def add(a, b):\n    return a + b")
WRONG = w.code("def add(a, b):\n    return None")
LOST = w.code("def add(a, b):\n    return b + a")
ANSWER = "def add(a, b):\n    return a + b"
STRUCK = "def add(a, b):\n    return b + a"
NETWORK = Fault("network", Phase.IN_PLAY)

FIX = w.call("write_file", path="number.txt", content="42")
BOOM = w.call("bash", command="boom")
DIE = w.call("bash", command="die")
DONE = "It is done."
#: Turns of an agent: 1, 0, without a verdict, and a 0 of its own doing.
FIXED, IDLE, CUT, DEAD = (FIX, DONE), (DONE,), (FIX, BOOM, "never said"), (FIX, DIE, "never said")

SYNC, COLOCATE, SEPARATE = "sync", "colocate_async", "separate_async"


def provider() -> FaultyProvider:
    acts = {
        "boom": lambda space: NetworkError("the provider can't be reached"),
        "die": lambda space: SandboxDiedError("gone"),
    }
    sessions = FakeSessions(acts, judged=lambda files: files.get("number.txt") == b"42")
    add = Behaviour.calls(lambda a, b: a + b)
    return FaultyProvider(
        FakeProvider({ANSWER: add, STRUCK: add}, sessions=sessions), NETWORK, answers={STRUCK}
    )


class Queue:
    """What stands for TransferQueue: partitions of rows, and a tag for each prompt."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {"train": {}, "val": {}}
        self.rows: dict[str, dict[str, Any]] = {"train": {}, "val": {}}
        self.asked: Counter[str] = Counter()

    async def put(self, key: str, partition_id: str, tag: Any = None, **more: Any) -> None:
        self.tags[partition_id][key] = tag

    async def batch_put(self, keys: list[str], fields: Any, tags: list[Any], partition_id: str) -> None:
        for index, key in enumerate(keys):
            self.tags[partition_id][key] = tags[index]
            self.rows[partition_id][key] = fields[index]

    async def list(self, partition_id: str | None = None) -> dict[str, dict[str, Any]]:
        self.asked[str(partition_id)] += 1
        return (
            {partition_id: dict(self.tags[partition_id])} if partition_id and self.tags[partition_id] else {}
        )


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    monkeypatch.setattr(transfer_queue, "init", lambda *args, **options: None)
    monkeypatch.setattr(transfer_queue, "async_kv_put", made.put)
    monkeypatch.setattr(transfer_queue, "async_kv_batch_put", made.batch_put)
    monkeypatch.setattr(transfer_queue, "async_kv_list", made.list)
    return made


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "_said", set())


@dataclass
class Written:
    """What the worker wrote for one batch of prompts."""

    config: Any
    status: dict[str, str]
    rows: dict[str, Any]
    model: Any
    errors: list[Any] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return sorted(self.rows)

    @property
    def scores(self) -> list[float]:
        return [float(self.rows[key]["rm_scores"].sum()) for key in self.keys]

    @property
    def tokens(self) -> list[int]:
        return [int(self.rows[key]["response_mask"].sum()) for key in self.keys]

    def told(self, name: str) -> list[Any]:
        return [info[name] for info in self.infos]

    @property
    def infos(self) -> list[dict[str, Any]]:
        return [dict(self.rows[key]["extra_fields"]["reward_extra_info"]) for key in self.keys]

    def advantages(self, estimator: str) -> list[float]:
        """Of each row, as the v1 trainer has them computed."""
        keys = self.keys
        rows = [
            {name: self.rows[key][name] for name in ("response_mask", "rm_scores")}
            | {"uid": key.rsplit("_", 2)[0]}
            for key in keys
        ]
        data = DataProto(batch=tensordict_utils.list_of_dict_to_tensordict(rows).to_padded_tensor())
        data.batch["token_level_rewards"] = data.batch["rm_scores"]
        data.non_tensor_batch["uid"] = np.array(data.batch.pop("uid").tolist(), dtype=object)
        found = compute_advantage_for_multi_trajectories(
            data, batch_keys=keys, adv_estimator=estimator, num_repeat=4, config=self.config.algorithm
        ).batch["advantages"]
        assert not (found * (1 - data.batch["response_mask"])).any()
        count = data.batch["response_mask"].sum(-1).clamp(min=1)
        return [round(float(value), 3) for value in found.sum(-1) / count]


def run(
    cfg: Any,
    queue: Queue,
    groups: dict[str, Sequence[Any]],
    *,
    env: str = "add",
    agent: str = "deepgym_single_turn",
    validate: bool = False,
) -> Written:
    """Have verl's v1 worker roll out each prompt, whose samples say what is written down."""
    return asyncio.run(_run(cfg, queue, groups, env, agent, validate))


async def _run(
    cfg: Any, queue: Queue, groups: dict[str, Sequence[Any]], env: str, agent: str, validate: bool
) -> Written:
    # What is rendered is rendered in turn, so that a prompt's samples take their answers in turn, too.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    said = {
        uid: [[one] if isinstance(one, str) else one for one in answers] for uid, answers in groups.items()
    }
    model = w.Model(None, said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class(cfg, model, None, None)
    model.tokenizer = worker.tokenizer
    rows = [w.row_of(w.Sample([], env, uid, agent), uid) | {"agent_name": agent} for uid in groups]
    columns: dict[str, Any] = {}
    for name in rows[0]:
        columns[name] = np.empty(len(rows), dtype=object)
        columns[name][:] = [row[name] for row in rows]
    batch = tensordict_utils.get_tensordict(columns)
    tensordict_utils.assign_non_tensor_data(batch, "global_steps", 1)
    if validate:
        tensordict_utils.assign_non_tensor_data(batch, "validate", True)
    partition = "val" if validate else "train"
    # The trainer registers a prompt before it asks for it.
    for uid in groups:
        await queue.put(uid, partition, {"is_prompt": True, "status": "pending"})
    with Caught() as errors:
        await worker.generate_sequences(batch)
        while worker.background_tasks:
            await asyncio.gather(*worker.background_tasks)
    status = {uid: queue.tags[partition][uid]["status"] for uid in groups}
    return Written(cfg, status, dict(queue.rows[partition]), model, errors)


class Caught(logging.Handler):
    """The exceptions that verl's worker logs while it goes on."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.exc_info[1] if record.exc_info else record.getMessage())

    def __enter__(self) -> list[Any]:
        logging.getLogger("verl.trainer.ppo.v1.agent_loop_tq").addHandler(self)
        return self.found

    def __exit__(self, *exc: object) -> None:
        logging.getLogger("verl.trainer.ppo.v1.agent_loop_tq").removeHandler(self)


def config(model: str, mode: str, *more: str) -> Any:
    return w.config(
        model,
        "trainer.use_v1=True",
        f"trainer.v1.trainer_mode={mode}",
        "actor_rollout_ref.rollout.val_kwargs.n=4",
        "actor_rollout_ref.rollout.multi_turn.max_parallel_calls=2",
        *more,
    )


def kept(uid: str, *sessions: int) -> list[str]:
    return [f"{uid}_{session}_0" for session in sessions]


KINDS = [
    ("add", "deepgym_single_turn", GOOD, WRONG, LOST),
    ("number", "deepgym_agent", FIXED, IDLE, CUT),
]
both = pytest.mark.parametrize(("env", "agent", "good", "wrong", "lost"), KINDS, ids=["single turn", "agent"])


# --- one of n ------------------------------------------------------------------------------------------------


@both
def test_sync_drops_one_of_n_by_an_exception(
    tiny_model: str, queue: Queue, env: str, agent: str, good: Any, wrong: Any, lost: Any
) -> None:
    cfg = config(tiny_model, SYNC)
    with w.graded_by(provider(), cfg):
        found = run(
            cfg, queue, {"a": [good, good, wrong, lost], "b": [good, wrong] * 2}, env=env, agent=agent
        )
    assert found.keys == [*kept("a", 0, 1, 2), *kept("b", 0, 1, 2, 3)]
    assert found.scores == [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert found.status == {"a": "failure", "b": "finished"}
    (error,) = found.errors
    assert isinstance(error, NoVerdictError)
    assert error.result is not None
    assert error.result.error_type == "network_error"
    assert all(tuple(info) == KEYS for info in found.infos)
    assert found.told("error") == [0.0] * 7
    for estimator in ("deepgym_grpo", "grpo"):
        assert found.advantages(estimator) == [0.577, 0.577, -1.155, 0.866, -0.866, 0.866, -0.866]
    for estimator in ("deepgym_rloo", "rloo"):
        assert found.advantages(estimator) == [0.5, 0.5, -1.0, 0.667, -0.667, 0.667, -0.667]
    assert siblings._groups == {}


@both
@pytest.mark.parametrize("mode", [COLOCATE, SEPARATE])
def test_the_async_modes_drop_one_of_n_without_its_siblings(
    tiny_model: str, queue: Queue, mode: str, env: str, agent: str, good: Any, wrong: Any, lost: Any
) -> None:
    cfg = config(tiny_model, mode)
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [good, good, wrong, lost]}, env=env, agent=agent)
    assert found.keys == kept("a", 0, 1, 2)
    # A group that failed would be evicted, its judged samples with it.
    assert found.status == {"a": "finished"}
    assert found.errors == []
    assert found.advantages("deepgym_grpo") == [0.577, 0.577, -1.155]
    assert siblings._groups == {}


@both
@pytest.mark.parametrize("mode", [SYNC, COLOCATE])
def test_a_lone_survivor_is_compared_with_nobody(
    tiny_model: str, queue: Queue, mode: str, env: str, agent: str, good: Any, wrong: Any, lost: Any
) -> None:
    cfg = config(tiny_model, mode)
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [lost, good, lost, lost]}, env=env, agent=agent)
    assert found.keys == kept("a", 1)
    assert found.advantages("deepgym_grpo") == found.advantages("deepgym_rloo") == [0.0]
    assert found.advantages("grpo") == [1.0], "verl's own takes its raw score"


# --- all of n ------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("mode", [SYNC, COLOCATE, SEPARATE])
def test_a_group_that_is_lost_as_a_whole_fails_so_that_verl_replaces_it(
    tiny_model: str, queue: Queue, mode: str, env: str, agent: str, good: Any, wrong: Any, lost: Any
) -> None:
    cfg = config(tiny_model, mode)
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [lost] * 4, "b": [good, wrong] * 2}, env=env, agent=agent)
    assert found.keys == kept("b", 0, 1, 2, 3)
    assert found.status == {"a": "failure", "b": "finished"}
    # In the async modes the last of them says it for all.
    assert len(found.errors) == (4 if mode == SYNC else 1)
    assert all(isinstance(error, NoVerdictError) for error in found.errors)
    assert siblings._groups == {}


def test_the_last_to_be_lost_knows_that_a_sibling_was_judged_long_before(
    tiny_model: str, queue: Queue
) -> None:
    cfg = config(tiny_model, COLOCATE)
    others = 0

    async def late() -> str:
        while others < 3:
            await asyncio.sleep(0)
        return LOST

    def after(text: str) -> Any:
        async def say() -> str:
            nonlocal others
            others += 1
            return text

        return say

    turns = [(late,), (after(WRONG),), (after(LOST),), (after(LOST),)]
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": turns})
    assert found.keys == kept("a", 1)
    assert found.status == {"a": "finished"}


def test_a_sibling_that_fails_otherwise_is_no_verdict_either(tiny_model: str, queue: Queue) -> None:
    cfg = config(tiny_model, COLOCATE)
    broken = (ConnectionError("the engine is gone"),)
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [broken, LOST, broken, LOST]})
    assert found.rows == {}
    assert found.status == {"a": "failure"}
    # The first of the two that are lost can't know; the last one does.
    assert Counter(type(error) for error in found.errors) == {ConnectionError: 2, NoVerdictError: 1}
    assert siblings._groups == {}


# --- what can be chosen --------------------------------------------------------------------------------------

LOST_KEY = "+reward.custom_reward_function.reward_kwargs.lost"


@both
@pytest.mark.parametrize("mode", [SYNC, COLOCATE])
def test_lost_mask_keeps_the_row_and_trains_nothing_of_it(
    tiny_model: str, queue: Queue, mode: str, env: str, agent: str, good: Any, wrong: Any, lost: Any
) -> None:
    cfg = config(tiny_model, mode, f"{LOST_KEY}=mask")
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [good, good, wrong, lost]}, env=env, agent=agent)
    assert found.keys == kept("a", 0, 1, 2, 3)
    assert found.scores == [1.0, 1.0, 0.0, 0.0]
    assert found.tokens[3] == 0
    assert found.told("error") == [0.0, 0.0, 0.0, 1.0]
    assert found.status == {"a": "finished"}
    assert found.advantages("deepgym_grpo") == [0.577, 0.577, -1.155, 0.0]
    assert found.advantages("deepgym_rloo") == [0.5, 0.5, -1.0, 0.0]
    assert found.advantages("grpo") == [0.866, 0.866, -0.866, 0.0]


@pytest.mark.parametrize(
    ("mode", "lost", "status", "errors"),
    [(COLOCATE, "raise", "failure", 1), (SYNC, "empty", "finished", 0), (SYNC, "raise", "failure", 1)],
)
def test_how_a_sample_is_dropped_can_be_chosen(
    tiny_model: str, queue: Queue, mode: str, lost: str, status: str, errors: int
) -> None:
    cfg = config(tiny_model, mode, f"{LOST_KEY}={lost}")
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [GOOD, GOOD, WRONG, LOST]})
    assert found.keys == kept("a", 0, 1, 2)
    assert found.status == {"a": status}
    assert len(found.errors) == errors


def test_masking_under_an_estimator_that_counts_masked_rows_is_warned_of_once(
    tiny_model: str, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = config(tiny_model, SYNC, f"{LOST_KEY}=mask", "algorithm.adv_estimator=grpo")
    with w.graded_by(provider(), cfg):
        run(cfg, queue, {"a": [GOOD, LOST, LOST, LOST]})
    said = [record for record in caplog.records if "adv_estimator=grpo" in record.getMessage()]
    assert len(said) == 1


def test_dropping_needs_no_estimator_of_ours(
    tiny_model: str, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = config(tiny_model, SYNC, "algorithm.adv_estimator=grpo")
    with w.graded_by(provider(), cfg):
        run(cfg, queue, {"a": [GOOD, LOST, WRONG, LOST]})
    assert [record for record in caplog.records if "adv_estimator" in record.getMessage()] == []


# --- validation ----------------------------------------------------------------------------------------------


# What isn't known of a row is left out of its figure by verl 0.9.1; 0.9.0 ends at it.
NONE = None if w.VERL >= (0, 9, 1) else 0.0


def validated(found: Written) -> dict[str, float]:
    """verl's own figures of one prompt's samples."""
    infos: dict[str, list[Any]] = {"reward": found.scores}
    infos |= {key: [info[key] for info in found.infos] for key in KEYS}
    count = len(found.keys)
    expected = {} if w.VERL < (0, 9, 1) else {"expected_acc_counts": {("deepgym/add", "a"): 4}}
    figures = process_validation_metrics(["deepgym/add"] * count, ["a"] * count, infos, **expected)[
        "deepgym/add"
    ]
    means = {
        name: [value for figure, value in values.items() if figure.startswith("mean@")]
        for name, values in figures.items()
    }
    return {name: round(float(mean), 3) for name, (mean,) in means.items()}


@both
@pytest.mark.parametrize("mode", [SYNC, COLOCATE])
@pytest.mark.parametrize("lost_by", ["auto", "raise", "empty", "mask"])
def test_in_validation_a_lost_sample_stays_a_row_that_says_so(
    tiny_model: str,
    queue: Queue,
    mode: str,
    lost_by: str,
    env: str,
    agent: str,
    good: Any,
    wrong: Any,
    lost: Any,
) -> None:
    cfg = config(tiny_model, mode, f"{LOST_KEY}={lost_by}")
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [good, wrong, lost, good]}, env=env, agent=agent, validate=True)
    assert found.keys == kept("a", 0, 1, 2, 3)
    assert found.status == {"a": "finished"}
    assert found.told("error") == [0.0, 0.0, 1.0, 0.0]
    assert found.told("acc") == [1.0, 0.0, NONE, 1.0]
    assert found.told("score") == [1.0, 0.0, NONE, 1.0]
    assert found.scores == [1.0, 0.0, 0.0, 1.0]
    assert found.tokens[2] == 0
    assert all(tuple(info) == KEYS for info in found.infos)
    assert queue.asked == {"val": 1}, "only a sample without a verdict asks"
    if env == "add":
        figures = validated(found)
        assert figures["error"] == 0.25
        assert figures["reward"] == 0.5
        assert figures["acc"] == 0.5
        if w.VERL >= (0, 9, 1):
            assert (figures["acc_success_only"], figures["score"]) == (0.667, 0.667)


def test_a_validation_that_is_lost_as_a_whole_still_has_rows(tiny_model: str, queue: Queue) -> None:
    cfg = config(tiny_model, SYNC)
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [LOST] * 4}, validate=True)
    assert len(found.keys) == 4
    assert found.told("error") == [1.0] * 4
    figures = validated(found)
    assert figures["error"] == 1.0
    assert figures["reward"] == 0.0


def test_where_transfer_queue_cannot_be_asked_a_sample_is_training(
    tiny_model: str, queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(partition_id: str) -> Any:
        raise OSError("no such controller")

    monkeypatch.setattr(transfer_queue, "async_kv_list", broken)
    cfg = config(tiny_model, SYNC)
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [GOOD, LOST, WRONG, GOOD]}, validate=True)
    assert found.keys == kept("a", 0, 2, 3)
    assert any("taken for training's" in record.getMessage() for record in caplog.records)


# --- what is judged ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [SYNC, COLOCATE])
def test_the_agents_own_end_of_its_sandbox_is_a_row_with_0(tiny_model: str, queue: Queue, mode: str) -> None:
    cfg = config(tiny_model, mode)
    made = provider()
    with w.graded_by(made, cfg):
        found = run(cfg, queue, {"a": [FIXED, DEAD, CUT, FIXED]}, env="number", agent="deepgym_agent")
    assert found.keys == kept("a", 0, 1, 3)
    assert found.scores == [1.0, 0.0, 1.0]
    assert found.told("model_fault") == [0.0, 1.0, 0.0]
    assert found.advantages("deepgym_grpo") == [0.577, -1.155, 0.577]
    inner = made.inner
    assert isinstance(inner, FakeProvider)
    assert len(inner.workspaces) == 4
    assert all(space.closed for space in inner.workspaces)


def test_an_empty_response_is_a_row_with_one_token(tiny_model: str, queue: Queue) -> None:
    cfg = config(tiny_model, SYNC, "actor_rollout_ref.rollout.calculate_log_probs=True")
    with w.graded_by(provider(), cfg):
        found = run(cfg, queue, {"a": [([],), GOOD, LOST, WRONG]})
    assert found.keys == kept("a", 0, 1, 3)
    assert found.tokens[0] == 1
    assert found.scores[0] == 0.0
    for key in found.keys:
        row = found.rows[key]
        assert len(row["rollout_log_probs"]) == len(row["responses"]) == len(row["response_mask"])
        assert len(row["input_ids"]) == len(row["prompts"]) + len(row["responses"])
    assert found.advantages("deepgym_grpo") == [-0.577, 1.155, -0.577]
