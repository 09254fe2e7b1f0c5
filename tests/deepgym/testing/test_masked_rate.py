from __future__ import annotations

import logging
import os
import pickle
import threading
from typing import Any

import pytest

from deepgym.integrations.reward import MaskedRate
from deepgym.models import RunResult

GOOD = RunResult(score=1.0, env_name="two_sum")
LOST = RunResult(score=0.0, error_type="provider_error", env_name="two_sum")
LATE = RunResult(score=0.0, error_type="timeout", env_name="lru")


def feed(rate: MaskedRate, masked: int, judged: int = 0) -> None:
    for result in [LOST] * masked + [GOOD] * judged:
        rate.record(result)


def test_five_of_a_hundred_are_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    feed(MaskedRate(), 5, 95)
    assert caplog.records == []


def test_the_sixth_of_a_hundred_warns_at_once_and_once(caplog: pytest.LogCaptureFixture) -> None:
    rate = MaskedRate()
    feed(rate, 5)
    assert caplog.records == []
    feed(rate, 1)
    assert len(caplog.records) == 1
    feed(rate, 94)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_each_block_counts_anew(caplog: pytest.LogCaptureFixture) -> None:
    rate = MaskedRate()
    feed(rate, 5, 95)
    feed(rate, 5, 95)
    assert caplog.records == []
    feed(rate, 100)
    feed(rate, 100)
    assert len(caplog.records) == 2


def test_the_last_sample_of_a_block_belongs_to_it(caplog: pytest.LogCaptureFixture) -> None:
    rate = MaskedRate()
    rate.record_all([GOOD] * 94 + [LOST] * 6)
    assert len(caplog.records) == 1


def test_the_warning_breaks_down_what_was_masked(caplog: pytest.LogCaptureFixture) -> None:
    rate = MaskedRate("grader")
    rate.record_all([GOOD, LOST, LATE, LOST, LATE, LOST, LOST])
    assert caplog.messages == [
        "grader: 6 of the first 7 samples in a block of 100 got no verdict (provider_error 4, timeout 2; "
        "environments: two_sum 4, lru 2). Either the infrastructure is failing, or the policy found a "
        "failure that gets it masked."
    ]
    assert caplog.records[0].name == "deepgym.integrations.reward"


def test_the_breakdown_is_short(caplog: pytest.LogCaptureFixture) -> None:
    rate = MaskedRate(limit=9)
    for index in range(10):
        rate.count(True, error_type=f"e{index}")
    assert "e4 1, 5 more; environments: unknown 10" in caplog.text


def test_a_sample_that_was_judged_may_be_masked_and_the_other_way_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rate = MaskedRate(limit=0)
    rate.record(LOST, masked=False)
    assert caplog.records == []
    rate.record(GOOD, masked=True)
    assert len(caplog.records) == 1


def test_a_model_fault_is_not_masked(caplog: pytest.LogCaptureFixture) -> None:
    MaskedRate(limit=0).record(RunResult(score=0.0, error_type="solution_error"))
    assert caplog.records == []


def test_it_is_an_observer(caplog: pytest.LogCaptureFixture) -> None:
    rate = MaskedRate(limit=0)
    rate.on_phase(0, "opened")
    rate.on_result(0, LOST)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"limit": 100}, {"block": 0, "limit": 0}])
def test_a_limit_that_can_never_be_passed_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="limit is at least 0"):
        MaskedRate(**wrong)


def test_it_counts_on_after_pickling(caplog: pytest.LogCaptureFixture) -> None:
    rate = MaskedRate("a", block=50, limit=5)
    feed(rate, 5)
    again = pickle.loads(pickle.dumps(rate))
    feed(again, 1)
    assert len(caplog.records) == 1
    feed(rate, 1)
    assert len(caplog.records) == 2


def test_no_sample_is_lost_between_threads(caplog: pytest.LogCaptureFixture) -> None:
    rate = MaskedRate()
    threads = [threading.Thread(target=feed, args=(rate, 500)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caplog.records) == 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_lock_held_at_a_fork_does_not_stop_the_child(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rate = MaskedRate(limit=0)
    rate._lock.acquire()
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    rate.record(LOST)
    assert len(caplog.records) == 1


def test_no_logging_is_configured() -> None:
    logger = logging.getLogger("deepgym.integrations.reward")
    assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True)
