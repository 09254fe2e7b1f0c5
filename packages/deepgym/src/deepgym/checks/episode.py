"""One episode on trial: an agent works, leaves a process that goes on writing, and breaks what it can."""

from __future__ import annotations

from deepgym.client import DeepGym
from deepgym.environments.multi_turn import EpisodeLimits, MultiTurnEnvironment
from deepgym.environments.verify import Program
from deepgym.exceptions import DeepGymError
from deepgym.providers.local.provider import LocalProvider

__all__ = ["broken_session"]

_VERIFY = """
def verify(work):
    assert work.text("answer.txt") == "done", "what the agent wrote last isn't there"
    before = work.text("clock.txt")
    return before == work.text("clock.txt")
"""
_STEPS = (
    "(while :; do date +%N > clock.txt; done) & while [ ! -s clock.txt ]; do sleep 0.01; done",
    "kill -9 1; kill -9 -1; exit 7",
    "printf done > answer.txt",
)


def broken_session(tier: str) -> str | None:
    """Why an agent's episode isn't judged as it should be behind ``tier``; ``None`` if it is."""
    env = MultiTurnEnvironment(
        name="doctor/episode",
        task="Work.",
        verify=Program(source=_VERIFY),
        limits=EpisodeLimits(step=10.0, verify=10.0),
    )
    try:
        provider = LocalProvider(slots=1, isolation=tier)
        with DeepGym(provider=provider) as client, client.session(env) as session:
            session.reset()
            for command in _STEPS:
                session.step(command)
            result = session.score()
    except DeepGymError as error:
        return str(error)
    return (
        None
        if result.passed
        else f"an honest episode came to {result.score}: {result.error or result.details}"
    )
