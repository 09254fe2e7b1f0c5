"""What verl is handed of a sample: a judged row, or what leaves it out under the trainer at hand."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from deepgym.exceptions import NoVerdictError
from deepgym.models import RunResult
from deepgym_verl.info import KEYS
from deepgym_verl.leaving_out import judged_row, left_out
from deepgym_verl.siblings import Group, join

LOST = RunResult(score=0.0, error_type="provider_error", error="HTTP 503")
HALF = RunResult(score=0.5, exit_code=1)


class Config(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def loop_of(mode: str = "sync", estimator: str = "deepgym_grpo", eos: int | None = 7, **rollout: Any) -> Any:
    config = Config(
        algorithm=Config(adv_estimator=estimator),
        actor_rollout_ref=Config(actor=Config()),
        trainer=Config(v1=Config(trainer_mode=mode)),
    )
    return SimpleNamespace(
        config=config, tokenizer=SimpleNamespace(eos_token_id=eos), rollout_config=Config(rollout)
    )


def output_of(ids: list[int] | None = None, logprobs: bool = False, **more: Any) -> Any:
    ids = [1, 2, 3] if ids is None else ids
    return SimpleNamespace(
        **{
            "prompt_ids": [9],
            "response_ids": ids,
            "response_mask": [1] * len(ids),
            "response_logprobs": [-0.5] * len(ids) if logprobs else None,
            "reward_score": None,
            "metrics": SimpleNamespace(compute_score=0.0),
            "extra_fields": {"min_global_steps": 3},
            **more,
        }
    )


@pytest.fixture(autouse=True)
def validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt ``val`` is one of validation."""

    async def async_kv_list(partition: str) -> Any:
        return {"val": {"val": {}}}

    module = ModuleType("transfer_queue")
    module.async_kv_list = async_kv_list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transfer_queue", module)


def joined(uid: str, count: int) -> Group:
    """The group of so many samples that are under way."""
    groups = [join(uid) for _ in range(count)]
    return groups[0]


def leave(loop: Any, output: Any, row: dict[str, Any], lost: Any = "auto", siblings: int = 1) -> Any:
    """What becomes of the first of so many samples that are under way."""
    group = joined(row["uid"], siblings)
    try:
        return asyncio.run(left_out(loop, output, LOST, row, group, lost, 1.5, 2))
    finally:
        group.leave()


V1 = {"uid": "a", "session_id": 0}
VALIDATION = {"uid": "val", "session_id": 0}
LEGACY = {"uid": "a"}


def test_a_judged_row_has_its_score_and_all_keys() -> None:
    output = output_of()
    row = judged_row(loop_of(), output, HALF, 1.5, 2)
    assert row is output
    assert row.reward_score == 0.5
    assert type(row.reward_score) is float
    assert row.response_mask == [1, 1, 1]
    assert row.metrics.compute_score == 1.5
    info = row.extra_fields["reward_extra_info"]
    assert tuple(info) == KEYS
    assert (info["score"], info["error"], info["seconds"], info["steps"]) == (0.5, 0.0, 1.5, 2.0)
    assert row.extra_fields["min_global_steps"] == 3


@pytest.mark.parametrize("lost", ["auto", "raise", "empty", "mask"])
def test_the_legacy_trainer_always_gets_a_masked_row(lost: str) -> None:
    row = leave(loop_of(), output_of(), LEGACY, lost)
    assert (row.reward_score, row.response_mask, row.response_ids) == (0.0, [0, 0, 0], [1, 2, 3])
    info = row.extra_fields["reward_extra_info"]
    assert tuple(info) == KEYS
    assert (info["error"], info["score"], info["acc"], info["seconds"], info["steps"]) == (
        1.0,
        0.0,
        0.0,
        1.5,
        2.0,
    )


@pytest.mark.parametrize("lost", ["auto", "raise", "empty", "mask"])
def test_validation_of_v_1_gets_a_row_that_says_nothing_but_the_error(lost: str) -> None:
    for mode in ("sync", "colocate_async", "separate_async"):
        row = leave(loop_of(mode), output_of(), VALIDATION, lost)
        assert (row.reward_score, row.response_mask) == (0.0, [0, 0, 0])
        info = row.extra_fields["reward_extra_info"]
        assert (tuple(info), info["error"], info["acc"], info["score"]) == (KEYS, 1.0, None, None)


@pytest.mark.parametrize(
    ("mode", "lost", "siblings", "raises"),
    [
        ("sync", "auto", 4, True),
        ("sync", "auto", 1, True),
        ("sync", "raise", 4, True),
        ("sync", "empty", 4, False),
        ("sync", "empty", 1, False),
        ("colocate_async", "auto", 4, False),
        ("colocate_async", "auto", 1, True),
        ("separate_async", "auto", 4, False),
        ("separate_async", "auto", 1, True),
        ("colocate_async", "raise", 4, True),
        ("colocate_async", "empty", 1, False),
    ],
)
def test_training_of_v_1_drops_the_sample_as_its_mode_needs(
    mode: str, lost: str, siblings: int, raises: bool
) -> None:
    if not raises:
        assert leave(loop_of(mode), output_of(), V1, lost, siblings) == []
        return
    with pytest.raises(NoVerdictError, match=r"no verdict \(provider_error: HTTP 503\)") as caught:
        leave(loop_of(mode), output_of(), V1, lost, siblings)
    assert caught.value.result == LOST


def test_a_sample_whose_sibling_was_judged_is_dropped_alone() -> None:
    group = join("a")
    group.judged += 1
    assert asyncio.run(left_out(loop_of("colocate_async"), output_of(), LOST, V1, group, "auto", 0.0)) == []
    group.leave()


def test_of_siblings_that_are_lost_at_once_exactly_one_raises() -> None:
    async def one() -> Any:
        group = join("a")
        try:
            await asyncio.sleep(0)
            return await left_out(loop_of("colocate_async"), output_of(), LOST, V1, group, "auto", 0.0)
        finally:
            group.leave()

    async def main() -> list[Any]:
        return list(await asyncio.gather(*(one() for _ in range(8)), return_exceptions=True))

    found = asyncio.run(main())
    assert sum(isinstance(each, NoVerdictError) for each in found) == 1
    assert [each for each in found if not isinstance(each, NoVerdictError)] == [[]] * 7


def test_a_masked_row_may_be_had_under_v_1_too(caplog: pytest.LogCaptureFixture) -> None:
    row = leave(loop_of(estimator="grpo"), output_of(), V1, "mask")
    assert (row.response_mask, row.extra_fields["reward_extra_info"]["error"]) == ([0, 0, 0], 1.0)
    assert "algorithm.adv_estimator=grpo counts masked samples" in caplog.text


def test_the_legacy_trainer_is_warned_of_its_estimator_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        leave(loop_of(estimator="rloo"), output_of(), LEGACY)
    assert len([each for each in caplog.records if "adv_estimator=rloo" in each.message]) == 1


def test_nothing_is_said_of_an_estimator_where_the_sample_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert leave(loop_of("colocate_async", "grpo"), output_of(), V1, siblings=2) == []
    leave(loop_of(estimator="grpo"), output_of(), VALIDATION)
    assert not [each for each in caplog.records if "adv_estimator" in each.message]


@pytest.mark.parametrize(("eos", "token"), [(7, 7), (0, 0), (None, 0)])
def test_an_empty_response_holds_one_token_for_its_reward(eos: int | None, token: int) -> None:
    row = judged_row(loop_of(eos=eos), output_of([]), HALF, 0.0)
    assert (row.response_ids, row.response_mask, row.response_logprobs) == ([token], [1], None)
    row = leave(loop_of(eos=eos), output_of([]), LEGACY)
    assert (row.response_ids, row.response_mask) == ([token], [0])


def test_an_answer_without_a_turn_of_the_model_s_is_no_prompt_to_train_on() -> None:
    """Verl's tool agent returns the whole prompt as the response of a first turn without a token."""
    for make in (
        lambda output: judged_row(loop_of(), output, HALF, 0.0),
        lambda output: leave(loop_of(), output, LEGACY),
    ):
        row = make(output_of([9, 9, 9], response_mask=[]))
        assert row.response_ids == [7]
        assert len(row.response_mask) == 1


@pytest.mark.parametrize("known", [True, False])
def test_an_empty_response_has_a_probability_where_verl_wants_them(known: bool) -> None:
    loop = loop_of(calculate_log_probs=True) if not known else loop_of()
    row = judged_row(loop, output_of([], logprobs=known), HALF, 0.0)
    assert row.response_logprobs == [0.0]


def test_probabilities_of_a_response_are_left_as_they_are() -> None:
    row = leave(loop_of(), output_of(logprobs=True), LEGACY)
    assert row.response_logprobs == [-0.5] * 3
    assert row.metrics.compute_score == 1.5
