"""Every mode in which Axolotl takes ``None`` for 0 is refused, with the reason and the remedy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deepgym_axolotl.modes import active, refusals, refuse, refuse_trainer
from deepgym_axolotl.settings import ConfigError, DeepGymSection, Setup

#: Keys of a run's file, and what the refusal is to name.
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "async prefetch": ({"trl": {"async_prefetch": True}}, "trl.async_prefetch"),
    "data producer": ({"trl": {"use_data_producer": True}}, "trl.use_data_producer"),
    "both": (
        {"trl": {"use_data_producer": True, "async_prefetch": True}},
        "use_data_producer with trl.async",
    ),
    "reward workers": ({"trl": {"reward_num_workers": 2}}, "trl.reward_num_workers: 2"),
    "context parallel": ({"context_parallel_size": 2}, "context_parallel_size: 2"),
    "sequence parallel": ({"sequence_parallel_degree": 4}, "sequence_parallel_degree: 4"),
}
GOOD: dict[str, Any] = {"rl": "grpo", "trl": {"num_generations": 4}, "micro_batch_size": 8}


def told(cfg: dict[str, Any], **options: Any) -> list[str]:
    options = {"axolotl": "0.19.0", **options}
    return [str(refusal) for refusal in refusals(cfg, Setup.of(cfg), **options)]


def merged(changes: dict[str, Any], **section: Any) -> dict[str, Any]:
    trl = {**GOOD["trl"], **changes.get("trl", {})}
    return {**GOOD, **changes, "trl": trl, "deepgym": section}


@pytest.mark.parametrize(("changes", "named"), BAD.values(), ids=BAD)
def test_a_mode_that_takes_none_for_0_is_refused_with_reason_and_remedy(
    changes: dict[str, Any], named: str
) -> None:
    (text,) = told(merged(changes))
    assert named in text
    assert "sums rewards with None as 0, so that a run without a verdict would be trained on" in text
    assert ": remove it" in text
    assert "or set deepgym.no_verdict: group_mean" in text


@pytest.mark.parametrize("changes", [changes for changes, _ in BAD.values()], ids=BAD)
def test_with_the_groups_mean_it_is_allowed(changes: dict[str, Any]) -> None:
    assert told(merged(changes, no_verdict="group_mean")) == []


def test_a_good_run_is_told_nothing() -> None:
    assert told(GOOD) == []
    assert told({**GOOD, "rl": "gdpo"}) == []


@pytest.mark.parametrize(
    ("version", "refused"), [("0.17.0", True), ("0.18.0", False), ("0.21.0.dev0", False)]
)
def test_an_axolotl_whose_trl_takes_none_for_0_is_refused(version: str, refused: bool) -> None:
    texts = told(GOOD, axolotl=version)
    assert bool(texts) is refused
    assert all("Axolotl 0.17.0 pins a TRL" in text and "upgrade to 0.18 or later" in text for text in texts)
    assert told(merged({}, no_verdict="group_mean"), axolotl=version) == []


def test_all_reasons_are_told_at_once() -> None:
    cfg = merged({"rl": "dpo", "context_parallel_size": 2, "trl": {"async_prefetch": True}})
    with pytest.raises(ConfigError) as caught:
        refuse(cfg, Setup.of(cfg))
    for named in ("rl: dpo calls no reward function", "trl.async_prefetch", "context_parallel_size: 2"):
        assert named in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "processes", "said"),
    [
        ({"micro_batch_size": 2}, 2, "gradient_accumulation_steps = 2 rows, which aren't whole groups"),
        ({"micro_batch_size": 2, "gradient_accumulation_steps": 2}, 2, None),
        ({"trl": {"generation_batch_size": 12}}, 2, "generation_batch_size / 2 processes = 6 rows"),
        ({"trl": {"generation_batch_size": 16}}, 2, None),
        ({"trl": {"num_generations": None}}, 1, "has to know how large a group is: set trl.num_generations"),
    ],
)
def test_the_groups_mean_is_refused_where_groups_are_split(
    changes: dict[str, Any], processes: int, said: str | None
) -> None:
    texts = told(merged(changes, no_verdict="group_mean"), processes=processes)
    assert len(texts) == (said is not None)
    assert said is None or said in texts[0]


def test_a_penalty_near_a_length_that_is_not_set_is_refused() -> None:
    (text,) = told(merged({}, dapo=True))
    assert text.endswith("trl.max_completion_length, which isn't set: set it to a number")
    assert told(merged({}, dapo=True, soft_punish_cache=0)) == []
    assert told(merged({"trl": {"max_completion_length": 64}}, dapo=True)) == []


class AsyncGRPOTrainer:
    args = SimpleNamespace(use_data_producer=False, async_prefetch=True)


class AxolotlGRPOContextParallelTrainer:
    args = SimpleNamespace()


class GRPOTrainer:
    args = SimpleNamespace()


@pytest.mark.parametrize("kind", [AsyncGRPOTrainer, AxolotlGRPOContextParallelTrainer])
def test_such_a_trainer_is_refused_however_it_was_come_by(kind: type) -> None:
    with pytest.raises(ConfigError, match="sums rewards with None as 0"):
        refuse_trainer(kind(), DeepGymSection())
    refuse_trainer(kind(), DeepGymSection(no_verdict="group_mean"))


def test_other_trainers_and_none_are_not() -> None:
    refuse_trainer(GRPOTrainer(), DeepGymSection())
    refuse_trainer(None, DeepGymSection())
    off = type("AsyncGRPOTrainer", (), {"args": SimpleNamespace(use_data_producer=False)})
    refuse_trainer(off(), DeepGymSection())


@pytest.mark.parametrize(
    ("cfg", "ours"),
    [
        ({}, False),
        ({"trl": None, "datasets": None}, False),
        ({"trl": {"reward_funcs": ["mine.reward"]}, "datasets": [{"type": "chatml"}]}, False),
        ({"deepgym": {}}, True),
        ({"trl": {"reward_funcs": ["mine.reward", "deepgym_axolotl.reward"]}}, True),
        ({"datasets": [{"type": "deepgym_axolotl.transform"}]}, True),
    ],
)
def test_a_run_that_does_not_name_deepgym_is_left_alone(cfg: dict[str, Any], ours: bool) -> None:
    assert active(cfg) is ours
