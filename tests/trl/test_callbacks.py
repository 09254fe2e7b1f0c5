from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym.testing.laws import ADD, GOOD, SCRIPT, WRONG
from deepgym_trl.composite import CompositeReward, gate
from deepgym_trl.dapo import make_dapo_reward_fn
from deepgym_trl.rewards import TRLReward

transformers = pytest.importorskip("transformers")

from transformers import TrainerControl, TrainerState  # noqa: E402

from deepgym_trl.callbacks import MaskedRateCallback, RewardListCallback  # noqa: E402

OURS = GOOD + "\n# the provider fails this one"
ALARM = "found a failure that gets it masked"
STOPS = "training stops"


def arguments(**over: Any) -> Any:
    given = {
        "per_device_train_batch_size": 10,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 1,
        "num_iterations": 1,
        "world_size": 1,
        "ddp_timeout": 1800,
    }
    return SimpleNamespace(**{**given, **over})


def shares(**kinds: float) -> dict[str, float]:
    return {f"deepgym/no_verdict/{kind}": share for kind, share in kinds.items()}


class Run:
    """A trainer's events without the trainer."""

    def __init__(self, callback: Any, *, zero: bool = True, **over: Any) -> None:
        self.callback, self.args = callback, arguments(**over)
        self.state = TrainerState(is_world_process_zero=zero, is_local_process_zero=zero)
        self.control = TrainerControl()
        callback.on_train_begin(self.args, self.state, self.control)

    def log(self, rate: Any = None, *, steps: int = 1, prefix: str = "", **logs: Any) -> None:
        self.state.global_step += steps
        found = {"loss": 0.1, **logs} if rate is None else {"loss": 0.1, "deepgym/verdict_rate": rate, **logs}
        found = {prefix + key: value for key, value in found.items()}
        self.callback.on_log(self.args, self.state, self.control, logs=found)


def said(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


# --- when it warns -----------------------------------------------------------------------------------------


def test_five_in_a_hundred_are_no_alarm_and_six_are(caplog: pytest.LogCaptureFixture) -> None:
    as_logged = 0.949999988079071  # 0.95 as float32
    for rate, alarms in ((0.95, 0), (as_logged, 0), (1.0, 0), (0.94, 1)):
        caplog.clear()
        run = Run(MaskedRateCallback(), per_device_train_batch_size=100)
        run.log(rate)
        assert len(said(caplog, ALARM)) == alarms, rate


def test_the_alarm_names_how_many_and_the_error_types_by_share(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MaskedRateCallback(window=10, name="coder"))
    run.log(0.5, **shares(network_error=0.4, deadline=0.1, timeout=0.0))
    run.log(0.7, **shares(network_error=0.0, deadline=0.3, timeout=0.0))
    first, second = said(caplog, ALARM)
    assert "3 got no verdict (deadline 100%)" in second
    assert first.startswith(
        "coder: of the last 10 samples 5 got no verdict (network_error 80%, deadline 20%)."
    )
    assert "Either the infrastructure is failing, or the policy" in first


def test_a_rate_without_error_types_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    Run(MaskedRateCallback()).log(0.0)
    assert "10 got no verdict (unknown 100%)" in said(caplog, ALARM)[0]


def test_it_warns_once_a_window_and_again_in_the_next(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MaskedRateCallback(window=30))
    counts = []
    for rate in (0.8, 0.8, 0.8, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5):
        run.log(rate, **shares(network_error=1 - rate))
        counts.append(len(said(caplog, ALARM)))
    assert counts == [1, 1, 1, 1, 1, 1, 1, 2, 2]


def test_it_warns_as_soon_as_the_window_cannot_stay_below_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MaskedRateCallback(window=100))
    counts = []
    for rate in (0.8, 0.8, 0.8):
        run.log(rate)
        counts.append(len(said(caplog, ALARM)))
    assert counts == [0, 0, 1], "six of the first thirty are more than five of a hundred"


def test_only_the_worlds_process_zero_speaks_and_all_decide_alike(caplog: pytest.LogCaptureFixture) -> None:
    runs = [Run(MaskedRateCallback(window=10, stop_above=0.2), zero=zero) for zero in (True, False)]
    for run in runs:
        run.log(0.5)
        assert run.control.should_training_stop
        assert run.control.should_save
    assert len(said(caplog, ALARM)) == len(said(caplog, STOPS)) == 1


@pytest.mark.parametrize("rate", [None, math.nan, "0.5"])
def test_a_log_without_a_rate_counts_nothing(rate: Any) -> None:
    run = Run(MaskedRateCallback())
    run.log(1.0)
    run.log(rate)
    assert run.callback.samples == 10


def test_evaluation_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MaskedRateCallback(window=10, stop_above=0.0))
    run.log(0.0, prefix="eval_")
    run.callback.on_log(run.args, run.state, run.control, logs=None)
    assert (run.callback.samples, run.control.should_training_stop) == (0, False)
    assert not caplog.records


@pytest.mark.parametrize(
    ("over", "steps", "samples"),
    [
        ({}, 1, 10),
        ({}, 7, 70),
        ({"world_size": 4, "gradient_accumulation_steps": 3, "steps_per_generation": 3}, 2, 240),
        ({"steps_per_generation": 8}, 1, 80),
        ({"steps_per_generation": 8}, 16, 160),
        ({"num_iterations": 2}, 10, 50),
        ({"num_iterations": None, "steps_per_generation": None, "gradient_accumulation_steps": 2}, 3, 60),
    ],
)
def test_a_logs_rate_weighs_as_many_samples_as_were_drawn(
    over: dict[str, Any], steps: int, samples: float
) -> None:
    run = Run(MaskedRateCallback(window=10_000), **over)
    run.log(0.75, steps=steps, **shares(network_error=0.25))
    assert run.callback.samples == samples
    assert run.callback.masked == {"network_error": samples / 4}


def test_steps_whose_log_has_no_key_count_with_the_next_that_has(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MaskedRateCallback(window=10_000), steps_per_generation=4)
    for turn in range(8):
        run.log(1.0 if turn % 4 == 0 else None)
    assert run.callback.samples == 80
    assert not caplog.records


def test_a_first_log_without_the_key_says_once_that_nobody_watches(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MaskedRateCallback())
    run.log(None, prefix="eval_")
    run.callback.on_log(run.args, run.state, run.control, logs={"train_runtime": 1.0})
    assert not caplog.records
    run.log(None)
    run.log(None)
    (message,) = said(caplog, "no deepgym/verdict_rate")
    assert "no DeepGym reward function is logging" in message


# --- when it stops -----------------------------------------------------------------------------------------


def test_it_stops_after_patience_windows_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MaskedRateCallback(window=20, stop_above=0.3, patience=2))
    for rate, stops in ((0.5, 0), (0.5, 0), (0.9, 0), (0.9, 0), (0.5, 0), (0.7, 0), (0.5, 0), (0.5, 1)):
        run.log(rate, **shares(provider_error=1 - rate))
        assert run.control.should_training_stop == run.control.should_save == bool(stops)
    (message,) = said(caplog, STOPS)
    assert "at step 8 and saves a checkpoint" in message
    assert "2 window(s) in a row of at least 20 samples had more than 30.0% without a verdict" in message
    assert "provider_error 100%" in message


def test_without_stop_above_it_never_stops() -> None:
    run = Run(MaskedRateCallback(window=10))
    for _ in range(20):
        run.log(0.0)
    assert not run.control.should_training_stop


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": 0},
        {"patience": 0},
        {"limit": 1.0},
        {"limit": -0.1},
        {"limit": math.nan},
        {"stop_above": 1.0},
        {"stop_above": -0.5},
    ],
)
def test_arguments_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MaskedRateCallback(**wrong)


def test_its_state_survives_json(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MaskedRateCallback(window=40, limit=0.1, stop_above=0.3, patience=3, name="coder"))
    for _ in range(5):
        run.log(0.5, **shares(network_error=0.5))
    again = MaskedRateCallback.from_state(json.loads(json.dumps(run.callback.state())))
    assert again.state() == run.callback.state()
    assert (again.windows_above, again.samples, again.masked) == (1, 10, {"network_error": 5.0})
    assert again.warned
    caplog.clear()
    Run(again).log(0.5)
    assert not said(caplog, ALARM), "this window's warning was given before the checkpoint"


# --- in the real trainers ----------------------------------------------------------------------------------


class Script:
    """As `extract`: whatever the policy wrote, the next scripted answer."""

    def __init__(self, answers: list[str]) -> None:
        self.answers, self.asked = answers, 0

    def __call__(self, completion: Any) -> str:
        self.asked += 1
        return self.answers[(self.asked - 1) % len(self.answers)]


@pytest.fixture
def dg() -> Iterator[DeepGym]:
    inner = FakeProvider({**SCRIPT, OURS: SCRIPT[GOOD]})
    with DeepGym(provider=FaultyProvider(inner, Fault("network", Phase.IN_PLAY), answers={OURS})) as made:
        yield made


def trainer_of(
    kind: str,
    model: str,
    folder: Path,
    funcs: Any,
    callbacks: Any = (),
    *,
    trainer: Any = None,
    evaluate: bool = False,
    **config: Any,
) -> Any:
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    rows = [{"prompt": [{"role": "user", "content": f"add {index}"}]} for index in range(8)]
    options: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 4,
        "max_steps": 1,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
    }
    return (trainer or getattr(trl, f"{kind}Trainer"))(
        model=model,
        reward_funcs=funcs,
        args=getattr(trl, f"{kind}Config")(**{**options, **config}),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:1]) if evaluate else None,
        callbacks=list(callbacks),
    )


def formatted(completions: list[Any], **call: Any) -> list[float]:
    return [1.0] * len(completions)


def half_lost(dg: DeepGym) -> TRLReward:
    return TRLReward(ADD, dg=dg, extract=Script([GOOD, OURS, WRONG, OURS]))


def watch() -> MaskedRateCallback:
    """Half of each batch of 4 is lost: a window is two steps, and training stops after two windows."""
    return MaskedRateCallback(window=8, stop_above=0.4, patience=2)


def test_a_run_without_verdicts_stops_with_a_checkpoint(
    dg: DeepGym, tiny_model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = trainer_of("GRPO", tiny_model, tmp_path, half_lost(dg), [watch()], max_steps=9)
    trainer.train()
    assert trainer.state.global_step == 4
    assert len(said(caplog, ALARM)) == 2, "once in each of two windows"
    assert "of the last 4 samples 2 got no verdict (network_error 100%)" in said(caplog, ALARM)[0]
    assert len(said(caplog, STOPS)) == 1
    saved = json.loads((tmp_path / "checkpoint-4" / "trainer_state.json").read_text("utf-8"))
    assert saved["stateful_callbacks"]["MaskedRateCallback"]["args"]["patience"] == 2
    logs = [log for log in trainer.state.log_history if "loss" in log]
    assert [log["deepgym/verdict_rate"] for log in logs] == [0.5] * 4
    assert [log["deepgym/no_verdict/network_error"] for log in logs] == [0.5] * 4


def test_counts_come_back_from_a_checkpoint_in_the_middle_of_a_window(
    dg: DeepGym, tiny_model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saving = {"save_strategy": "steps", "save_steps": 3}
    first = trainer_of("GRPO", tiny_model, tmp_path, half_lost(dg), [watch()], max_steps=3, **saving)
    first.train()
    for restore, ends in ((True, 4), (False, 6)):
        caplog.clear()
        again = trainer_of(
            "GRPO",
            tiny_model,
            tmp_path,
            half_lost(dg),
            [watch()],
            max_steps=6,
            restore_callback_states_from_checkpoint=restore,
        )
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
        assert again.state.global_step == ends
        assert len(said(caplog, STOPS)) == (1 if restore else 0)


def test_logs_over_several_steps_and_evaluation_count_the_training_samples(
    dg: DeepGym, tiny_model: str, tmp_path: Path
) -> None:
    callback = MaskedRateCallback(window=1000)
    trainer = trainer_of(
        "RLOO",
        tiny_model,
        tmp_path,
        half_lost(dg),
        [callback],
        max_steps=4,
        logging_steps=2,
        gradient_accumulation_steps=2,
        evaluate=True,
        eval_strategy="steps",
        eval_steps=2,
        per_device_eval_batch_size=4,
    )
    trainer.train()
    keys = Counter(
        key for log in trainer.state.log_history for key in log if key.endswith("deepgym/verdict_rate")
    )
    assert keys == {"deepgym/verdict_rate": 2, "eval_deepgym/verdict_rate": 2}
    assert callback.samples == 4 * 4 * 2
    assert callback.masked == {"network_error": callback.samples / 2}


def test_a_trainer_without_a_deepgym_reward_is_told(
    tiny_model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = trainer_of("GRPO", tiny_model, tmp_path, formatted, [MaskedRateCallback()], max_steps=2)
    trainer.add_callback(RewardListCallback(trainer))
    trainer.train()
    assert len(said(caplog, "no deepgym/verdict_rate")) == 1
    assert not said(caplog, "reward function(s)")


# --- the look at the rewards -------------------------------------------------------------------------------


def begin(rewards: Any, *, zero: bool = True, **over: Any) -> None:
    Run(RewardListCallback(rewards), zero=zero, **over)


def test_functions_that_unmask_rows_are_named_before_training(caplog: pytest.LogCaptureFixture) -> None:
    reward = TRLReward(ADD)
    for silent in ([reward], reward, [formatted], [CompositeReward(reward, formatted)]):
        begin(silent)
    begin([reward, gate(formatted, by=reward)])
    begin([reward, formatted], zero=False)
    assert not caplog.records
    begin([reward, formatted])
    (message,) = said(caplog, "reward function(s) formatted give a number")
    assert "CompositeReward" in message
    assert "gate(..., by=reward)" in message


def test_a_call_that_may_outlast_the_ranks_patience_is_refused() -> None:
    reward = TRLReward(ADD, deadline=600)
    begin(reward, ddp_timeout=60, world_size=1)
    begin(reward, ddp_timeout=1800, world_size=2)
    for funcs in (reward, [formatted, CompositeReward(reward, formatted)]):
        with pytest.raises(
            ValueError, match=r"ddp_timeout is 60 s.* deepgym may take 650 s.*ddp_timeout=710"
        ):
            begin(funcs, ddp_timeout=60, world_size=2, zero=False)
    both = [reward, CompositeReward(TRLReward(ADD, deadline=500, name="other"), gate(formatted, by=reward))]
    with pytest.raises(ValueError, match=r"deepgym, other may take 1200 s.*give each .* ddp_timeout=300"):
        begin(both, ddp_timeout=600, world_size=2)


def test_a_penalty_for_another_length_is_named(caplog: pytest.LogCaptureFixture) -> None:
    reward = make_dapo_reward_fn(ADD, max_completion_length=512, soft_punish_cache=64)
    begin(reward, max_completion_length=512)
    assert not caplog.records
    begin(reward, max_completion_length=256)
    assert (
        len(
            said(caplog, "'deepgym' reaches -1 at 512 tokens, but the trainer's max_completion_length is 256")
        )
        == 1
    )


@pytest.mark.parametrize("terms", [{"beta": 0.04}, {"entropy_coef": 0.01}, {"use_adaptive_entropy": True}])
def test_terms_that_train_on_rows_without_a_verdict_are_told(
    terms: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "deepgym_trl")
    begin([formatted], **terms)
    begin([TRLReward(ADD)], beta=0.0, entropy_coef=None)
    assert not caplog.records
    begin([TRLReward(ADD)], **terms)
    (message,) = said(caplog, "still train the policy")
    assert f"with {next(iter(terms))}, rows" in message


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
def test_it_looks_at_the_trainer_that_it_was_given(
    kind: str, dg: DeepGym, tiny_model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import deepgym_trl

    caplog.set_level(logging.INFO, "deepgym_trl")
    masked = getattr(deepgym_trl, f"DeepGym{kind}Trainer")
    for trainer_class, told in ((None, 1), (masked, 0)):
        caplog.clear()
        trainer = trainer_of(
            kind, tiny_model, tmp_path, [half_lost(dg), formatted], beta=0.1, trainer=trainer_class
        )
        trainer.add_callback(RewardListCallback(trainer))
        trainer.train()
        assert len(said(caplog, "reward function(s) formatted give a number")) == 1
        assert len(said(caplog, "with beta, rows without a verdict still train")) == told


def test_two_ranks_stop_at_the_same_step_though_one_alone_has_an_outage(
    tiny_model: str, tmp_path: Path
) -> None:
    pytest.importorskip("trl")
    script = Path(__file__).with_name("ranks") / "alarm.py"
    command = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    run = subprocess.run(
        [*command, *meeting, str(script), tiny_model, str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text("utf-8")) for rank in (0, 1)]
    assert [rank["step"] for rank in ranks] == [4, 4]
    assert (tmp_path / "run" / "checkpoint-4").is_dir()
    assert ranks[0]["logs"] == ranks[1]["logs"]
    assert [log["deepgym/verdict_rate"] for log in ranks[0]["logs"]] == [0.75, 0.5, 0.75, 0.5]
    means = [log["deepgym/component/formatted_later/mean"] for log in ranks[0]["logs"]]
    assert means == [0.25, None, 0.25, None], "a rank without a verdict has no mean, and TRL then has none"
    assert sum(ALARM in line for line in ranks[0]["said"]) == 2
    assert sum(STOPS in line for line in ranks[0]["said"]) == 1
    assert not any(ALARM in line or STOPS in line for line in ranks[1]["said"])
