"""Which trainer a sample is for, and what is said once of a configuration that defeats leaving it out."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest

from deepgym_verl.surroundings import (
    PATCH,
    in_validation,
    trainer_mode,
    under_v1,
    warn_of_estimator,
    warn_once,
)


class Config(dict[str, Any]):
    """Attributes and ``get``, as a configuration of OmegaConf's has them."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def configuration(estimator: str = "grpo", loss: str | None = None, **trainer: Any) -> Config:
    actor = Config() if loss is None else Config(loss_agg_mode=loss)
    return Config(
        algorithm=Config(adv_estimator=estimator),
        actor_rollout_ref=Config(actor=actor),
        trainer=Config(trainer),
    )


def test_v_1_alone_numbers_a_prompt_s_sessions() -> None:
    assert under_v1({"uid": "a", "session_id": 0})
    assert not under_v1({"uid": "a"})


def test_the_mode_is_the_v_1_trainer_s_or_sync() -> None:
    assert trainer_mode(configuration(v1=Config(trainer_mode="colocate_async"))) == "colocate_async"
    for v1 in (None, Config(), Config(trainer_mode=None)):
        assert trainer_mode(configuration(v1=v1)) == "sync"
    assert trainer_mode(configuration()) == "sync"


def queue(monkeypatch: pytest.MonkeyPatch, listed: Any) -> list[str]:
    """A ``transfer_queue`` that lists what it is told to, or raises it; the partitions that it was asked for."""
    asked: list[str] = []

    async def async_kv_list(partition: str) -> Any:
        asked.append(partition)
        if isinstance(listed, Exception):
            raise listed
        return listed

    module = ModuleType("transfer_queue")
    module.async_kv_list = async_kv_list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transfer_queue", module)
    return asked


@pytest.mark.parametrize(
    ("listed", "there"),
    [
        ({"val": {"a": {}}}, True),
        ({"val": {"b": {}}}, False),
        ({"val": {}}, False),
        ({"train": {"a": {}}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_sample_is_one_of_validation_if_verl_has_noted_its_prompt(
    listed: Any, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = queue(monkeypatch, listed)
    assert asyncio.run(in_validation({"uid": "a"})) is there
    assert asked == ["val"]


@pytest.mark.parametrize("listed", [RuntimeError("no"), ConnectionError("gone"), {"val": 3}])
def test_where_verl_cannot_be_asked_the_sample_is_training_s_and_that_is_said(
    listed: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue(monkeypatch, listed)
    assert asyncio.run(in_validation({"uid": "a"})) is False
    assert "taken for training's" in caplog.text


def test_without_transfer_queue_or_a_uid_it_is_training_s_too(monkeypatch: pytest.MonkeyPatch) -> None:
    queue(monkeypatch, {"val": {"a": {}}})
    assert asyncio.run(in_validation({})) is False
    monkeypatch.setitem(sys.modules, "transfer_queue", None)
    assert asyncio.run(in_validation({"uid": "a"})) is False


@pytest.mark.parametrize(
    "estimator",
    [
        "grpo",
        "rloo",
        "gpg",
        "gdpo",
        "grpo_passk",
        "grpo_vectorized",
        "rloo_vectorized",
        "reinforce_plus_plus_baseline",
    ],
)
def test_an_estimator_whose_baseline_counts_masked_rows_is_said_once(
    estimator: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        warn_of_estimator(configuration(estimator))
    (record,) = caplog.records
    assert f"algorithm.adv_estimator={estimator} counts masked samples" in record.message
    assert "algorithm.adv_estimator=deepgym_grpo" in record.message
    assert (PATCH in record.message) == (estimator == "grpo")
    assert record.levelname == "WARNING"


@pytest.mark.parametrize(
    "estimator", ["deepgym_grpo", "deepgym_rloo", "gae", "opo", "reinforce_plus_plus", "remax"]
)
def test_nothing_is_said_of_an_estimator_that_leaves_them_out(
    estimator: str, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_estimator(configuration(estimator))
    assert not caplog.records


@pytest.mark.parametrize(("value", "said"), [("1", 0), ("0", 1), ("", 1)])
def test_nothing_is_said_of_grpo_once_it_is_patched(
    value: str, said: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(PATCH, value)
    warn_of_estimator(configuration("grpo"))
    assert len(caplog.records) == said
    caplog.clear()
    warn_of_estimator(configuration("rloo"))
    assert len(caplog.records) == 1 - said  # the same key once


@pytest.mark.parametrize("loss", ["seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"])
def test_a_loss_that_divides_by_masked_sequences_is_said(loss: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_estimator(configuration("deepgym_grpo", loss))
    (record,) = caplog.records
    assert f"actor_rollout_ref.actor.loss_agg_mode={loss} divides by all sequences" in record.message


def test_a_loss_per_token_is_none_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    for loss in ("token-mean", None):
        warn_of_estimator(configuration("deepgym_grpo", loss))
    config = configuration("deepgym_grpo")
    config["actor_rollout_ref"]["actor"] = None
    warn_of_estimator(config)
    assert not caplog.records


def test_a_warning_is_said_once_for_its_key(caplog: pytest.LogCaptureFixture) -> None:
    for key in ("a", "b", "a"):
        warn_once(key, f"about {key} 100% %s")
    assert [record.message for record in caplog.records] == ["about a 100% %s", "about b 100% %s"]
