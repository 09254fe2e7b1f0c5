"""Axolotl's own trainer, with outages: the judged rows learn what they would without the others."""

from __future__ import annotations

import logging
import math
import statistics
from pathlib import Path

import pytest

from deepgym.providers.local import LocalProvider

from .axo import base, letters, train
from .outages import Scored, Struck, client

pytestmark = pytest.mark.usefixtures("axolotl")


def golden(rewards: list[float]) -> list[float]:
    """TRL's advantages of a group, computed of its judged rows alone; 0 for the others."""
    judged = [reward for reward in rewards if not math.isnan(reward)]
    if len(judged) < 2:
        return [0.0] * len(rewards)
    mean, deviation = statistics.fmean(judged), statistics.stdev(judged)
    return [0.0 if math.isnan(reward) else (reward - mean) / (deviation + 1e-4) for reward in rewards]


@pytest.mark.local_sandbox
def test_siblings_learn_what_they_would_without_the_row_that_has_no_verdict(
    tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("deepgym.client.DeepGym", client(lambda: Struck(LocalProvider(), lambda text: 0.35)))
    section = {"env": letters(tmp_path / "letters"), "extract": False}
    with caplog.at_level(logging.WARNING):
        run = train(base(tiny_model, tmp_path, deepgym=section, micro_batch_size=40), tmp_path)

    assert type(run.trainer).__name__ == "AxolotlGRPOTrainer"
    groups = list(run.groups())
    for rewards, advantages in groups:
        assert advantages == pytest.approx(golden(rewards), abs=1e-5)
    judged = [sum(not math.isnan(reward) for reward in rewards) for rewards, _ in groups]
    assert {2, 3} <= set(judged), "no group lost a row and kept others"
    learnt = [any(advantages) for _, advantages in groups]
    assert sum(learnt) > 10

    rate = statistics.fmean(log["deepgym/verdict_rate"] for log in run.logs)
    assert rate == pytest.approx(sum(judged) / 120)
    for batch, log in zip(run.batches, run.logs, strict=True):
        scores = [reward for reward in batch.rewards if not math.isnan(reward)]
        assert log["rewards/deepgym/mean"] == pytest.approx(statistics.fmean(scores), abs=1e-6)
        assert log["deepgym/judged_mean_score"] == pytest.approx(statistics.fmean(scores), abs=1e-6)
        assert log["deepgym/no_verdict/provider_error"] == pytest.approx(1 - log["deepgym/verdict_rate"])
    (alarm,) = [record.getMessage() for record in caplog.records if "no verdict" in record.getMessage()]
    assert alarm.startswith("deepgym_axolotl: ")


def test_the_masked_trainer_leaves_such_rows_out_of_the_loss_too(
    tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Struck(Scored(lambda text: len(text) % 4 / 3), lambda text: 0.5)
    monkeypatch.setattr("deepgym.client.DeepGym", client(lambda: provider))
    section = {"env": letters(tmp_path / "letters"), "extract": False, "stop_above": 0.2, "dapo": True}
    cfg = base(
        tiny_model,
        tmp_path,
        deepgym={**section, "soft_punish_cache": 0},
        trainer_cls="deepgym_axolotl.MaskedGRPOTrainer",
        trl={"mask_truncated_completions": False},
        micro_batch_size=32,
        max_steps=9,
        logging_steps=None,
    )
    run = train(cfg, tmp_path)

    assert type(run.trainer).__name__ == "MaskedGRPOTrainer"
    for batch in run.batches:
        for reward, tokens in zip(batch.rewards, batch.counted, strict=True):
            assert (tokens == 0) is math.isnan(reward)
        assert batch.items == sum(batch.counted)
    lost = [math.isnan(reward) for batch in run.batches for reward in batch.rewards]
    assert 0.3 < sum(lost) / len(lost) < 0.7

    args = run.trainer.args
    assert (args.epsilon_high, args.loss_type, args.scale_rewards) == (0.28, "dapo", "group")
    assert args.mask_truncated_completions is False, "the file's own word counts"
    assert args.logging_steps == 10, "and not 500, in which an alarm hears nothing"


@pytest.mark.local_sandbox
def test_without_the_plugin_rows_that_name_their_environments_are_enough(
    tiny_model: str, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"env_id": "two_sum"}\n{"env_id": "to_roman"}\n')
    cfg = base(
        tiny_model,
        tmp_path,
        plugins=[],
        datasets=[{"path": str(rows), "ds_type": "json", "type": "deepgym_axolotl.transform"}],
        skip_prepare_dataset=True,
        max_steps=1,
    )
    (log,) = train(cfg, tmp_path).logs
    assert (log["deepgym/verdict_rate"], log["deepgym/samples"], log["reward"]) == (1.0, 8.0, 0.0)


def test_too_much_without_a_verdict_stops_training(
    tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Struck(Scored(lambda text: len(text) % 4 / 3), lambda text: 0.5)
    monkeypatch.setattr("deepgym.client.DeepGym", client(lambda: provider))
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": [{"role": "user", "content": "Write."}], "difficulty": 3}\n' * 40)
    cfg = base(
        tiny_model,
        tmp_path,
        deepgym={"env": letters(tmp_path / "letters"), "extract": False, "stop_above": 0.2},
        datasets=[{"path": str(rows), "ds_type": "json", "type": "deepgym_axolotl.transform"}],
        skip_prepare_dataset=True,
        micro_batch_size=32,
        max_steps=9,
    )
    run = train(cfg, tmp_path)
    assert run.trainer.state.global_step == 4, "128 samples are the first window of at least 100"
    assert [log["deepgym/samples"] for log in run.logs] == [32.0] * 4
