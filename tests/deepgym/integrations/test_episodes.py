"""What a failure of ours leaves of an episode, and how long its grading may take."""

from __future__ import annotations

import pytest

from deepgym import DeepGym
from deepgym.contract.evidence import Failure
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program
from deepgym.integrations.episodes import grading_seconds, unjudged
from deepgym.models import RunResult
from deepgym.testing import FakeProvider, FakeSessions

ENV = MultiTurnEnvironment(
    name="test/episode",
    task="Make the file done.",
    verify=Program(source="def verify(work): return work.exists('done')"),
    limits=EpisodeLimits(verify=7.0),
    seed=3,
)


@pytest.mark.parametrize(
    ("kind", "error_type"),
    [
        ("provider", "provider_error"),
        ("network", "network_error"),
        ("supervisor", "sandbox_error"),
        ("cancelled", "cancelled"),
        ("deadline", "deadline"),
    ],
)
def test_a_failure_of_ours_is_no_verdict_whatever_its_kind(kind: str, error_type: str) -> None:
    result = unjudged(Failure(kind=kind, message="HTTP 503"), ENV)  # type: ignore[arg-type]
    assert (result.has_verdict, result.reward, result.score, result.passed) == (False, None, 0.0, False)
    assert result.error_type == error_type
    assert "HTTP 503" in str(result.error)
    assert (result.env_name, result.env_digest) == (ENV.name, ENV.digest)
    assert RunResult.model_validate_json(result.model_dump_json()) == result


def test_without_an_environment_it_names_none() -> None:
    result = unjudged(Failure(kind="provider", message="no"))
    assert (result.has_verdict, result.env_name, result.sandbox_id) == (False, "", None)


def test_a_session_adds_its_sandbox_and_its_seed() -> None:
    with DeepGym(provider=FakeProvider(sessions=FakeSessions())) as dg, dg.session(ENV, seed=5) as session:
        failure = Failure(kind="network", message="gone")
        before = unjudged(failure, ENV, session)
        assert (before.sandbox_id, before.seed) == (None, 5)
        session.reset()
        after = unjudged(failure, ENV, session)
        assert (after.sandbox_id, after.seed, after.has_verdict) == (session.id, 5, False)
        assert after.sandbox_id


def test_grading_may_take_two_tries_of_its_limit_and_the_copy_of_the_work() -> None:
    assert grading_seconds(ENV) == 2 * (7.0 + 2.0) + 30.0
    longer = ENV.model_copy(update={"limits": EpisodeLimits(verify=600.0)})
    assert grading_seconds(longer) == 2 * 602.0 + 30.0
