"""verl's own AgentLoopWorker and RewardLoopWorker in this process, and the advantages of what they return."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from deepgym.contract.evidence import Phase
from deepgym.exceptions import NoVerdictError
from deepgym.integrations.labels import UnknownLabelError
from deepgym.providers.base import Sandbox, Spec
from deepgym.providers.local import LocalProvider
from deepgym.testing import Behaviour, FakeProvider, Fault, FaultyProvider
from deepgym_verl import judge as judges
from deepgym_verl import surroundings
from deepgym_verl.advantages import patch_grpo
from deepgym_verl.info import KEYS
from deepgym_verl.options import OptionsError

sys.path.append(str(Path(__file__).parent))
w: Any = importlib.import_module("workers")
sys.path.remove(str(Path(__file__).parent))

Sample, code = w.Sample, w.code
GOOD = "def add(a, b):\n    return a + b"
HALF = "def add(a, b):\n    return a"
WRONG = "def add(a, b):\n    return None"
LOST = "def add(a, b):\n    return b + a"
#: What the fakes make of these; an answer that isn't there is judged 0.
SCRIPT = {
    GOOD: Behaviour.calls(lambda a, b: a + b),
    HALF: Behaviour.calls(lambda a, b: a),
    LOST: Behaviour.calls(lambda a, b: a + b),
}
NETWORK = Fault("network", Phase.IN_PLAY)


def outage(inner: Any = None, fault: Fault = NETWORK) -> FaultyProvider:
    """A provider that loses `LOST`, and nothing else."""
    return FaultyProvider(FakeProvider(SCRIPT) if inner is None else inner, fault, answers={LOST})


def group(*answers: str, uid: str = "a") -> list[Any]:
    return [Sample([code(answer)], uid=uid) for answer in answers]


@pytest.fixture
def cfg(tiny_model: str) -> Any:
    return w.config(tiny_model)


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been warned of yet, and nothing was counted."""
    monkeypatch.setattr(surroundings, "_said", set())
    monkeypatch.setattr(judges, "MASKED", type(judges.MASKED)("deepgym_verl"))


# --- one sample without a verdict ----------------------------------------------------------------------------

ADVANTAGES = {
    "deepgym_grpo": [0.577, 0.577, -1.155, 0.0],
    "deepgym_rloo": [0.5, 0.5, -1.0, 0.0],
    # verl's own: the masked row counts in its siblings' baseline.
    "grpo": [0.866, 0.866, -0.866, 0.0],
    "rloo": [0.667, 0.667, -0.667, 0.0],
}


@pytest.mark.local_sandbox
def test_one_lost_sample_of_four_is_masked_and_moves_no_advantage(cfg: Any) -> None:
    with w.graded_by(outage(LocalProvider()), cfg):
        batch = w.legacy(cfg, group(GOOD, GOOD, WRONG, LOST))
        judged = w.legacy(cfg, group(GOOD, GOOD, WRONG))
    assert batch.scores == [1.0, 1.0, 0.0, 0.0]
    said = [len(batch.model.tokenizer.encode(code(answer))) + 1 for answer in (GOOD, GOOD, WRONG, LOST)]
    assert batch.tokens == [*said[:3], 0]
    assert batch.told("error") == [0.0, 0.0, 0.0, 1.0]
    assert batch.told("acc") == [1.0, 1.0, 0.0, 0.0]
    assert batch.texts[3] == code(LOST) + "<|im_end|>", (
        "its text is kept for whoever reads what was rolled out"
    )
    for name, expected in ADVANTAGES.items():
        assert w.advantages(batch, name) == expected, name
    for ours, verls in (("deepgym_grpo", "grpo"), ("deepgym_rloo", "rloo")):
        assert w.advantages(batch, ours)[:3] == w.advantages(judged, ours) == w.advantages(judged, verls)


def test_a_group_that_is_lost_as_a_whole_moves_no_other(cfg: Any) -> None:
    with w.graded_by(outage(), cfg):
        batch = w.legacy(cfg, [*group(GOOD, HALF, WRONG, GOOD), *group(LOST, LOST, LOST, LOST, uid="b")])
    assert batch.scores == [1.0, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert batch.tokens[4:] == [0, 0, 0, 0]
    assert w.advantages(batch)[:4] == [0.783, -0.261, -1.306, 0.783]
    assert w.advantages(batch)[4:] == [0.0, 0.0, 0.0, 0.0]


def test_a_batch_that_is_lost_as_a_whole_trains_nothing(cfg: Any) -> None:
    with w.graded_by(outage(), cfg):
        batch = w.legacy(cfg, [*group(LOST, LOST), *group(LOST, LOST, uid="b")])
    assert batch.scores == [0.0] * 4
    assert batch.tokens == [0] * 4
    assert batch.told("error") == [1.0] * 4
    for name in ADVANTAGES:
        assert w.advantages(batch, name) == [0.0] * 4


@pytest.mark.parametrize(("survivor", "verls"), [(GOOD, 1.5), (WRONG, 0.0)])
def test_a_lone_survivor_has_nothing_to_be_compared_with(cfg: Any, survivor: str, verls: float) -> None:
    with w.graded_by(outage(), cfg):
        batch = w.legacy(cfg, group(survivor, LOST, LOST, LOST))
        alone = w.legacy(cfg, group(survivor))
    assert w.advantages(batch) == [0.0] * 4
    assert w.advantages(batch, "deepgym_rloo") == [0.0] * 4
    assert w.advantages(batch, "grpo")[0] == verls
    assert w.advantages(alone) == [0.0]
    assert w.advantages(alone, "grpo") == [1.0 if survivor == GOOD else 0.0]


def test_groups_that_are_told_apart_by_nothing_but_their_uid_keep_their_own_baselines(cfg: Any) -> None:
    answers = [GOOD, WRONG, LOST, GOOD, GOOD, WRONG, HALF, LOST]
    samples = [Sample([code(answer)], uid="ab"[index % 2]) for index, answer in enumerate(answers)]
    with w.graded_by(outage(), cfg):
        batch = w.legacy(cfg, samples)
    # a: 1, lost, 1, 0.5    b: 0, 1, 0, lost
    assert w.advantages(batch) == [0.577, -0.577, 0.0, 1.155, 0.577, -0.577, -1.155, 0.0]


def test_without_the_deviation_what_is_left_is_the_distance_from_the_judged_mean(tiny_model: str) -> None:
    cfg = w.config(tiny_model, "algorithm.norm_adv_by_std_in_grpo=False")
    with w.graded_by(outage(), cfg):
        batch = w.legacy(cfg, group(GOOD, GOOD, WRONG, LOST))
    assert w.advantages(batch) == [0.333, 0.333, -0.667, 0.0]


def test_the_patch_makes_verls_own_estimator_leave_masked_rows_out(
    cfg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    core: Any = importlib.import_module("verl.trainer.ppo.core_algos")
    monkeypatch.setattr(core, "compute_grpo_outcome_advantage", core.compute_grpo_outcome_advantage)
    monkeypatch.setitem(core.ADV_ESTIMATOR_REGISTRY, "grpo", core.ADV_ESTIMATOR_REGISTRY["grpo"])
    with w.graded_by(outage(), cfg):
        batch = w.legacy(cfg, group(GOOD, GOOD, WRONG, LOST))
    assert w.advantages(batch, "grpo") == ADVANTAGES["grpo"]
    patch_grpo()
    assert w.advantages(batch, "grpo") == ADVANTAGES["deepgym_grpo"]


# --- what verl is told ---------------------------------------------------------------------------------------


@pytest.mark.local_sandbox
def test_rows_of_both_loops_and_of_the_reward_worker_have_the_same_keys_in_the_same_order(cfg: Any) -> None:
    act = w.call("bash", command="echo 42 > number.txt")
    samples = [
        *group(GOOD, LOST),
        Sample([act, "Done."], env="number", agent="deepgym_agent"),
        Sample(["I give up."], env="number", agent="deepgym_agent"),
        Sample([code(HALF)], agent="single_turn_agent"),
    ]

    async def run(order: list[int]) -> Any:
        rewards = w.reward_worker(cfg)
        return await w.legacy_here(cfg, [samples[index] for index in order], rewards=rewards)

    with w.graded_by(outage(LocalProvider()), cfg):
        for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 4, 0, 2, 3]):
            batch = asyncio.run(run(order))
            assert (
                batch.keys == KEYS == ("score", "acc", "passed", "error", "model_fault", "seconds", "steps")
            )
            assert batch.scores == [[1.0, 0.0, 1.0, 0.0, 0.5][index] for index in order]
            assert batch.told("steps") == [[0.0, 0.0, 1.0, 0.0, 0.0][index] for index in order]
            assert all(isinstance(value, float) and value >= 0 for key in KEYS for value in batch.told(key))


def test_partial_credit_is_no_pass_and_the_answers_own_failure_is_a_model_fault(cfg: Any) -> None:
    crash = "import os; os._exit(3)"
    with w.graded_by(FakeProvider({**SCRIPT, crash: Behaviour.dies()}), cfg):
        batch = w.legacy(cfg, group(HALF, crash))
    assert batch.told("score") == [0.5, 0.0]
    assert batch.told("acc") == batch.told("passed") == [0.0, 0.0]
    assert batch.told("model_fault") == [0.0, 1.0]
    assert batch.told("error") == [0.0, 0.0]
    assert w.advantages(batch) == [0.707, -0.707]


# --- responses -----------------------------------------------------------------------------------------------


def test_an_empty_response_is_judged_0_and_stays_a_row(cfg: Any) -> None:
    with w.graded_by(outage(), cfg):
        batch = w.legacy(
            cfg, [Sample([[]]), Sample([code(GOOD)]), Sample([[], "never"]), Sample([code(LOST)])]
        )
    assert batch.scores == [0.0, 1.0, 0.0, 0.0]
    assert batch.tokens[::2] == [1, 1]
    assert batch.texts[0] == batch.trained[0] == "<|im_end|>"
    assert w.advantages(batch) == [-0.577, 1.155, -0.577, 0.0]


def test_an_empty_response_without_a_verdict_is_masked_and_keeps_its_logarithms_in_step(
    tiny_model: str,
) -> None:
    cfg = w.config(tiny_model, "actor_rollout_ref.rollout.calculate_log_probs=True")
    provider = FaultyProvider(FakeProvider(SCRIPT), NETWORK, answers={""})
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [Sample([[]]), Sample([code(GOOD)])])
    assert batch.tokens[0] == 0
    assert batch.told("error") == [1.0, 0.0]
    logs = batch.data.batch["rollout_log_probs"]
    assert logs.shape == batch.data.batch["responses"].shape
    assert logs[0].sum() == 0.0
    assert logs[1].sum() == -0.5 * batch.tokens[1]


def test_special_tokens_are_no_part_of_the_answer(cfg: Any) -> None:
    spoken = f"<|im_start|>{code(GOOD)}<|im_end|><|endoftext|>"
    with w.graded_by(FakeProvider(SCRIPT), cfg):
        batch = w.legacy(cfg, [Sample([spoken]), Sample([code("<|im_start|>" + GOOD)])])
    assert batch.scores == [1.0, 1.0]
    assert batch.trained[0] == spoken + "<|im_end|>", "but they are trained on"


def test_a_response_that_is_cut_is_graded_as_it_was_cut(cfg: Any, tiny_model: str) -> None:
    encode = w.tokenizer_of(tiny_model).encode
    answer, blank = encode(code(GOOD)), encode("\n")
    fits = blank * (w.LENGTH - len(answer)) + answer
    with w.graded_by(FakeProvider(SCRIPT), cfg):
        batch = w.legacy(cfg, [Sample([fits]), Sample([blank * 9 + fits])])
    assert batch.tokens == [w.LENGTH, w.LENGTH]
    assert batch.texts[0].endswith(code(GOOD))
    assert not batch.texts[1].endswith("```")
    assert batch.scores == [1.0, 0.0]


def test_a_response_in_which_no_text_can_be_read_is_judged_0(cfg: Any) -> None:
    with w.graded_by(FakeProvider(SCRIPT), cfg):
        batch = w.legacy(cfg, [Sample([[255, 254, 128]]), Sample([[300, 310, 319]])])
    assert batch.scores == [0.0, 0.0]
    assert batch.tokens == [3, 3]


# --- what fails ----------------------------------------------------------------------------------------------

FAULTS = [
    Fault("network", Phase.QUEUED),
    Fault("provider", Phase.OPENED),
    Fault("timeout", Phase.PLACED),
    Fault("evicted", Phase.PLACED),
    Fault("provider", Phase.IN_PLAY),
    Fault("expired", Phase.IN_PLAY),
    Fault("supervisor", Phase.REPORTED),
    Fault("died", Phase.PLACED),
    # The policy's own doing, by the contract: judged.
    Fault("died", Phase.IN_PLAY),
    Fault("timeout", Phase.IN_PLAY),
    Fault("zygote", Phase.REPORTED),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_masks_what_it_struck_or_is_the_answers_0(cfg: Any, fault: Fault) -> None:
    known = None if fault.phase is Phase.QUEUED else {LOST}
    with w.graded_by(FaultyProvider(FakeProvider(SCRIPT), fault, answers=known), cfg):
        batch = w.legacy(cfg, group(GOOD, LOST))
    ours = fault.error_type not in ("policy_sandbox_failure", "solution_timeout")
    assert batch.told("error") == [float(known is None), float(ours)]
    assert batch.told("model_fault") == [0.0, float(not ours)]
    assert batch.told("score")[1] == 0.0
    assert (batch.tokens[1] == 0) is ours
    assert w.advantages(batch) == ([0.0, 0.0] if ours else [0.707, -0.707])


def test_a_fault_that_passes_costs_nothing(cfg: Any) -> None:
    with w.graded_by(FaultyProvider(FakeProvider(SCRIPT), Fault("network", Phase.OPENED), times=1), cfg):
        batch = w.legacy(cfg, group(GOOD, HALF))
    assert batch.scores == [1.0, 0.5]
    assert batch.told("error") == [0.0, 0.0]


class Bug(FakeProvider):
    """A provider with a bug, or one that says its failure in its own words."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(SCRIPT)
        self.error = error

    async def open(self, spec: Spec) -> Sandbox:
        raise self.error


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), KeyError("x"), OSError(24, "Too many open files")], ids=repr
)
def test_a_judge_that_raises_masks_the_sample(cfg: Any, error: BaseException) -> None:
    with w.graded_by(Bug(error), cfg):
        batch = w.legacy(cfg, group(GOOD, WRONG))
    assert batch.told("error") == [1.0, 1.0]
    assert batch.tokens == [0, 0]


def test_a_client_that_was_closed_or_broken_masks_the_sample(
    cfg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with w.graded_by(FakeProvider(SCRIPT), cfg) as judge:

        def broken(make: Any) -> Any:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(judge.dg, "submit", broken)
        batch = w.legacy(cfg, group(GOOD, WRONG))
    assert batch.told("error") == [1.0, 1.0]
    assert batch.tokens == [0, 0]


def test_an_inference_engine_that_fails_is_verls_to_handle(cfg: Any) -> None:
    with w.graded_by(FakeProvider(SCRIPT), cfg), pytest.raises(ConnectionError, match="engine"):
        w.legacy(cfg, [Sample([ConnectionError("the engine is gone")]), *group(GOOD)])


def test_a_row_that_names_no_environment_ends_the_run_with_what_is_known(cfg: Any) -> None:
    with w.graded_by(FakeProvider(SCRIPT), cfg), pytest.raises(UnknownLabelError, match=r"'nowhere'.*add"):
        w.legacy(cfg, [Sample([code(GOOD)], env="nowhere")])


def test_a_row_for_an_agent_is_told_which_loop_to_take(cfg: Any) -> None:
    with w.graded_by(FakeProvider(SCRIPT), cfg), pytest.raises(OptionsError, match="deepgym_agent"):
        w.legacy(cfg, [Sample([code(GOOD)], env="number")])


def test_an_option_that_is_unknown_ends_the_run_at_its_first_sample(tiny_model: str) -> None:
    cfg = w.config(tiny_model, "+reward.custom_reward_function.reward_kwargs.max_paralell=2")
    # Hydra makes the loops, and has an exception of its own for what it is told there.
    with pytest.raises(Exception, match="did you mean max_parallel") as told:
        w.legacy(cfg, group(GOOD))
    assert isinstance(told.value.__cause__, OptionsError)


# --- how the loops are found ---------------------------------------------------------------------------------


@pytest.mark.local_sandbox
def test_a_file_of_agent_loops_names_them_too_and_its_options_win(tiny_model: str, tmp_path: Path) -> None:
    kwargs = "+reward.custom_reward_function.reward_kwargs"
    names = tmp_path / "loops.yaml"
    names.write_text(
        "- name: mine\n  _target_: deepgym_verl.loops.DeepGymSingleTurn\n  env: add\n  max_parallel: 1\n"
    )
    cfg = w.config(
        tiny_model,
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={names}",
        f"{kwargs}.env=nowhere",
        f"{kwargs}.deadline=60",
    )
    told = cfg.copy()
    told.reward.custom_reward_function.reward_kwargs = {"env": "add", "max_parallel": 1, "deadline": 60}
    with w.graded_by(LocalProvider(), told) as judge:
        batch = w.legacy(cfg, [Sample([code(GOOD)], agent="mine"), Sample([code(WRONG)], agent="mine")])
    assert batch.scores == [1.0, 0.0]
    assert (judge.options.max_parallel, judge.options.deadline) == (1, 60.0)


def test_the_file_that_we_ship_names_both(tiny_model: str) -> None:
    ours = Path(str(judges.__file__)).with_name("agent_loops.yaml")
    cfg = w.config(tiny_model, f"actor_rollout_ref.rollout.agent.agent_loop_config_path={ours}")
    with w.graded_by(FakeProvider(SCRIPT), cfg):
        batch = w.legacy(cfg, [*group(HALF), Sample(["Done."], env="number", agent="deepgym_agent")])
    assert batch.scores == [0.5, 0.0]


# --- compute_score in verl's reward worker -------------------------------------------------------------------


def scored(cfg: Any, *answers: str, env: str = "add", **row: Any) -> list[Any]:
    """What verl's reward worker makes of each: its answer or the exception."""

    async def run() -> list[Any]:
        worker = w.reward_worker(cfg)
        rows = [
            w.response(worker.input_tokenizer, code(text), {**w.row_of(Sample([], env), "p"), **row})
            for text in answers
        ]
        return await asyncio.gather(*map(worker.compute_score, rows), return_exceptions=True)

    return asyncio.run(run())


MANAGERS = ("naive", "dapo", "gdpo")


@pytest.mark.local_sandbox
@pytest.mark.parametrize("manager", MANAGERS)
def test_each_reward_manager_passes_a_score_on_and_a_missing_verdict_too(
    tiny_model: str, manager: str
) -> None:
    cfg = w.config(tiny_model, f"reward.reward_manager.name={manager}")
    with w.graded_by(outage(LocalProvider()), cfg):
        good, half, wrong, lost = scored(cfg, GOOD, HALF, WRONG, LOST)
    assert [found["reward_score"] for found in (good, half, wrong)] == [1.0, 0.5, 0.0]
    for found in (good, half, wrong):
        assert tuple(found["reward_extra_info"]) == KEYS
        assert found["reward_extra_info"]["score"] == found["reward_score"]
        assert found["reward_extra_info"]["error"] == 0.0
    assert isinstance(lost, NoVerdictError)
    assert lost.result.error_type == "network_error"
    assert not lost.result.has_verdict


def test_the_manager_that_turns_failures_into_0_is_refused_before_anything_is_graded(tiny_model: str) -> None:
    cfg = w.config(tiny_model, "reward.reward_manager.name=rate_limited")
    with w.graded_by(FakeProvider(SCRIPT), cfg) as judge, pytest.raises(ValueError, match="rate_limited"):
        scored(cfg, GOOD)
    assert judge.dg.provider.opened == 0


def test_that_manager_may_grade_what_isnt_ours(tiny_model: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.py"
    theirs.write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 0.25\n"
    )
    cfg = w.config(
        tiny_model, "reward.reward_manager.name=rate_limited", f"reward.custom_reward_function.path={theirs}"
    )
    (found,) = scored(cfg, GOOD)
    assert found["reward_score"] == 0.25


def test_under_the_legacy_trainer_a_missing_verdict_ends_the_run_and_names_the_loop_to_use(cfg: Any) -> None:
    samples = [Sample([code(answer)], agent=None) for answer in (GOOD, LOST)]

    async def run(chosen: Any) -> Any:
        return await w.legacy_here(chosen, samples, rewards=w.reward_worker(chosen))

    with w.graded_by(outage(), cfg):
        with pytest.raises(NoVerdictError, match="default_agent_loop=deepgym_single_turn"):
            asyncio.run(run(cfg))
        cfg.actor_rollout_ref.rollout.agent.default_agent_loop = "deepgym_single_turn"
        batch = asyncio.run(run(cfg))
    assert batch.told("error") == [0.0, 1.0]


def test_the_row_names_its_environment_in_more_than_one_place(cfg: Any) -> None:
    nameless = {"extra_info": {"index": 3}}
    with w.graded_by(FakeProvider(SCRIPT), cfg):
        for row in (
            {"extra_info": {"env_id": "add"}, "data_source": "theirs"},
            {"extra_info": {"task_id": "add"}, "data_source": "theirs"},
            nameless,
            {**nameless, "reward_model": {"ground_truth": ""}},
        ):
            (found,) = scored(cfg, HALF, **row)
            assert found["reward_score"] == 0.5
        (lost,) = scored(cfg, HALF, **nameless, data_source="theirs")
    assert isinstance(lost, UnknownLabelError)


# --- many at once --------------------------------------------------------------------------------------------


class Gate(FakeProvider):
    """A judge whose sandboxes are had once the `gate` is open."""

    def __init__(self, slots: int) -> None:
        super().__init__(SCRIPT)
        self.slots = slots
        self.gate = asyncio.Event()
        self.waiting = 0

    async def open(self, spec: Spec) -> Sandbox:
        self.waiting += 1
        await self.gate.wait()
        return await super().open(spec)


@pytest.mark.parametrize(("slots", "asked", "most"), [(3, None, 3), (10, 2, 2), (3, 10, 3)])
def test_a_worker_starts_no_more_runs_at_once_than_there_is_room_for(
    tiny_model: str, slots: int, asked: int | None, most: int
) -> None:
    more = () if asked is None else (f"+reward.custom_reward_function.reward_kwargs.max_parallel={asked}",)
    cfg = w.config(tiny_model, *more)
    provider = FakeProvider({**SCRIPT, GOOD: Behaviour.calls(lambda a, b: a + b, seconds=0.001)})
    provider.slots = slots  # type: ignore[attr-defined]
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, group(*[GOOD] * 60))
    assert batch.scores == [1.0] * 60
    assert provider.opened == provider.closed >= 60
    assert provider.busiest == most


def test_while_grading_waits_the_workers_loop_does_not(cfg: Any) -> None:
    provider = Gate(4)
    turns = 0

    async def run() -> Any:
        nonlocal turns
        grading = asyncio.create_task(w.legacy_here(cfg, group(GOOD, HALF, WRONG, GOOD)))
        while provider.waiting < 4:
            await asyncio.sleep(0)
        for turns in range(1000):  # noqa: B007 - it is how far it got
            await asyncio.sleep(0)
        assert not grading.done()
        judge.dg.submit(opened)
        return await grading

    async def opened(_: Any) -> None:
        provider.gate.set()

    with w.graded_by(provider, cfg) as judge:
        batch = asyncio.run(run())
    assert turns == 999
    assert batch.scores == [1.0, 0.5, 0.0, 1.0]


def test_a_judge_that_hangs_costs_its_runs_their_verdict_after_the_deadline(
    cfg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judges, "GRACE", 0.0)
    quick = w.ADD.model_copy(update={"limits": w.ADD.limits.model_copy(update={"wall": 0.1})})
    with w.graded_by(Gate(4), cfg, env=[quick]) as judge:
        object.__setattr__(judge.options, "deadline", w.least(quick) + 0.1)
        batch = w.legacy(cfg, group(GOOD, WRONG))
    assert batch.told("error") == [1.0, 1.0]
    assert batch.tokens == [0, 0]


# --- what is said --------------------------------------------------------------------------------------------


def warnings_of(caplog: pytest.LogCaptureFixture, name: str = "deepgym_verl") -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == name]


@pytest.mark.parametrize("estimator", ["grpo", "rloo", "gpg", "grpo_passk", "reinforce_plus_plus_baseline"])
def test_an_estimator_that_counts_masked_rows_is_warned_of_once(
    tiny_model: str, estimator: str, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = w.config(tiny_model, f"algorithm.adv_estimator={estimator}")
    with w.graded_by(outage(), cfg):
        w.legacy(cfg, group(GOOD, WRONG))
        assert warnings_of(caplog) == []
        w.legacy(cfg, group(GOOD, LOST, LOST))
        w.legacy(cfg, group(GOOD, LOST))
    (said,) = warnings_of(caplog)
    assert f"algorithm.adv_estimator={estimator}" in said
    assert "deepgym_grpo" in said
    assert ("DEEPGYM_VERL_PATCH_GRPO=1" in said) is (estimator == "grpo")


@pytest.mark.parametrize("estimator", ["deepgym_grpo", "deepgym_rloo", "gae", "opo", "reinforce_plus_plus"])
def test_an_estimator_that_does_not_is_not(
    tiny_model: str, estimator: str, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = w.config(tiny_model, f"algorithm.adv_estimator={estimator}")
    with w.graded_by(outage(), cfg):
        w.legacy(cfg, group(GOOD, LOST))
    assert warnings_of(caplog) == []


def test_the_patch_is_taken_for_what_it_is(
    tiny_model: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(surroundings.PATCH, "1")
    cfg = w.config(tiny_model, "algorithm.adv_estimator=grpo")
    with w.graded_by(outage(), cfg):
        w.legacy(cfg, group(GOOD, LOST))
    assert warnings_of(caplog) == []


def test_a_loss_that_divides_by_all_sequences_is_warned_of_once(
    tiny_model: str, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = w.config(tiny_model, "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean")
    with w.graded_by(outage(), cfg):
        w.legacy(cfg, group(LOST, LOST))
        w.legacy(cfg, group(LOST))
    (said,) = warnings_of(caplog)
    assert "loss_agg_mode=seq-mean-token-mean" in said


def test_a_masked_share_that_climbs_is_said_once_a_block(cfg: Any, caplog: pytest.LogCaptureFixture) -> None:
    logger = "deepgym.integrations.reward"
    with w.graded_by(outage(), cfg):
        w.legacy(cfg, group(*[GOOD] * 40, *[LOST] * 5))
        assert warnings_of(caplog, logger) == []
        w.legacy(cfg, group(LOST, *[GOOD] * 54))
        (said,) = warnings_of(caplog, logger)
        assert said.startswith("deepgym_verl: 6 of the first 46 samples in a block of 100 got no verdict")
        assert "network_error 6; environments: add 6" in said
        scored(cfg, *[LOST] * 6)
    assert len(warnings_of(caplog, logger)) == 2
