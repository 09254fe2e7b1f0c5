"""What a tiny model with random weights learns in seconds: an answer of lower-case letters.

A verifier reads the answer's file in the local sandbox, and of the gradings a share is lost.
"""

from __future__ import annotations

from deepgym.contract.evidence import Phase
from deepgym.environments import Environment, Program
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider

__all__ = ["LOST", "SEED", "SHARE", "outages", "share"]

#: Share of the samples that are without a verdict: their grading failed, and failed once more.
LOST = 0.2
SEED = 1

SHARE = Environment(
    name="training/share",
    task="Write lower-case letters.",
    verify=Program(
        source="""
def verify(solution):
    text = solution.source()
    return sum("a" <= char <= "z" for char in text) / max(1, len(text))
"""
    ),
)


def share(text: str) -> float:
    """What `SHARE` gives `text`."""
    return sum("a" <= char <= "z" for char in text) / max(1, len(text))


def outages(seed: int) -> FaultyProvider:
    """The local sandbox behind a network that fails; when it does depends on answers and `seed` alone."""
    return FaultyProvider(LocalProvider(), Fault("network", Phase.IN_PLAY), rate=LOST**0.5, seed=seed)
