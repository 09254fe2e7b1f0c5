"""The demo's group: eight completions for one task, one of them hit by a simulated outage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgym.extract import extract_code

if TYPE_CHECKING:
    from deepgym.models import BatchResult

__all__ = ["COMPLETIONS", "OUTAGE", "graded_group"]

_DYNAMIC = """
def coin_change(coins, amount):
    fewest = [0] + [amount + 1] * amount
    for value in range(1, amount + 1):
        for coin in coins:
            if coin <= value:
                fewest[value] = min(fewest[value], fewest[value - coin] + 1)
    return fewest[amount] if fewest[amount] <= amount else -1
"""

_BREADTH_FIRST = """
def coin_change(coins, amount):
    sums, count, seen = {0}, 0, {0}
    while sums:
        if amount in sums:
            return count
        sums = {value + coin for value in sums for coin in coins if value + coin <= amount} - seen
        seen |= sums
        count += 1
    return -1
"""

_GREEDY = """
def coin_change(coins, amount):
    count = 0
    for coin in sorted(coins, reverse=True):
        count, amount = count + amount // coin, amount % coin
    return count if amount == 0 else -1
"""

_LOOPING = """
def coin_change(coins, amount):
    while amount != 0:
        amount -= coins[0]
    return 0
"""

_RAISING = """
def coin_change(coins, amount):
    return min(coin_change(coins, amount - coin) for coin in coin) + 1
"""

_LEAVING = """
import os

def coin_change(coins, amount):
    os._exit(0)
"""


def _fenced(code: str) -> str:
    return f"Here is my answer:\n\n```python\n{code.lstrip()}```\n"


#: What each completion does, and its text.
COMPLETIONS: dict[str, str] = {
    "right": _fenced(_DYNAMIC),
    "right, after reasoning": f"<think>Breadth first will do.</think>\n{_fenced(_BREADTH_FIRST)}",
    "greedy, so partly right": _fenced(_GREEDY),
    "loops": _fenced(_LOOPING),
    "raises in every case": _fenced(_RAISING),
    "ends its own process": _fenced(_LEAVING),
    "no code at all": "I can't solve this.",
    "right, but its sandbox is lost": _fenced(_DYNAMIC + "\n# Graded while the provider is down.\n"),
}

#: The completion whose every attempt meets the outage.
OUTAGE = "right, but its sandbox is lost"


def graded_group() -> BatchResult:
    """The eight completions graded on ``coin_change``, in order, with a time limit of one second."""
    from deepgym.client import DeepGym
    from deepgym.contract.evidence import Phase
    from deepgym.environments import load_environment
    from deepgym.providers.local import LocalProvider
    from deepgym.testing import Fault, FaultyProvider

    env = load_environment("coin_change")
    # More processor time than wall time, so that the wall clock alone ends the endless loop.
    env = env.model_copy(update={"limits": env.limits.model_copy(update={"wall": 1.0, "cpu": 5.0})})
    answers = [extract_code(completion) for completion in COMPLETIONS.values()]
    lost = extract_code(COMPLETIONS[OUTAGE])
    provider = FaultyProvider(LocalProvider(), Fault("provider", Phase.OPENED), answers={lost})
    with DeepGym(provider=provider) as dg:
        return dg.run_batch(env, answers)
