"""What a run is made of: prompts, and what the policy that isn't there says to each of them.

A prompt's samples say its answers in turn: the first `GROUP` are said the first time that it comes up, the
next `GROUP` the second time (as validation does), and from the beginning again after the last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepgym import load_environment

__all__ = [
    "BREAKS",
    "DIED",
    "FIXED",
    "GROUP",
    "HALF",
    "LOST",
    "NUMBER",
    "OUTAGE",
    "RIGHT",
    "SHARE",
    "SINGLE",
    "STRAY",
    "STRUCK",
    "WRONG",
    "Answer",
    "Prompt",
    "write_data",
    "write_environments",
    "write_script",
]

#: Samples of a prompt, in training and in validation.
GROUP = 4
#: Texts in what is run that make the judge fail; see `verl_flaky`.
OUTAGE, BREAKS = "# outage", "# breaks"
#: An environment that is answered in one piece, one for an agent, and one in which a tiny model with random
#: weights learns to say what is worth more. The last two are written into each run's folder.
SINGLE, NUMBER, SHARE = "coin_change", "number", "share"

#: One thing said after another, until there is no tool call in it.
Answer = tuple[str, ...]

_REFERENCE = load_environment(SINGLE).reference
# The largest coins first, which isn't always fewest.
_GREEDY = """
def coin_change(coins, amount):
    count = 0
    for coin in sorted(coins, reverse=True):
        count += amount // coin
        amount %= coin
    return -1 if amount else count
"""


def _code(text: str | None) -> Answer:
    return (f"```python\n{text}\n```",)


def _act(command: str) -> Answer:
    call = json.dumps({"name": "bash", "arguments": {"command": command}})
    return (f"<tool_call>\n{call}\n</tool_call>", "It is done.")


RIGHT = _code(_REFERENCE)
HALF = _code(_GREEDY)
WRONG = _code("def coin_change(coins, amount):\n    return 99")
#: Shorter than what isn't lost, so that batches are as long with it as without.
LOST = _code(f"def coin_change(coins, amount):\n    {OUTAGE}")

FIXED = _act("echo 42 > number.txt")
STRAY = _act("echo 41 > number.txt")
#: The provider is lost in the middle of the episode, or the agent's sandbox dies of what the agent did.
STRUCK = _act(f"echo 42 > number.txt {OUTAGE}")
DIED = _act(f"echo 42 > number.txt {BREAKS}")


@dataclass(frozen=True)
class Prompt:
    """One row of a dataset, and what is said to it."""

    name: str
    """In its text, and in no other's."""
    answers: Sequence[Answer]
    agent: str | None = "deepgym_single_turn"
    """``None``: the configuration says which loop it is for."""
    task: str | None = None
    """Its environment; without one, the one that the other prompts of its loop have."""

    @property
    def env(self) -> str:
        return self.task or (NUMBER if self.agent == "deepgym_agent" else SINGLE)

    @property
    def row(self) -> dict[str, Any]:
        """As `deepgym verl rows` writes it, but for the shorter text."""
        return {
            "data_source": f"deepgym/{self.env}",
            "prompt": [{"role": "user", "content": f"[{self.name}] {self.env}?"}],
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": self.env},
            "extra_info": {"env": self.env, "prompt": self.name},
            **({} if self.agent is None else {"agent_name": self.agent}),
        }


def write_data(path: Path, prompts: Sequence[Prompt]) -> str:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist([prompt.row for prompt in prompts]), path)
    return str(path)


def write_script(path: Path, prompts: Sequence[Prompt]) -> str:
    """What the stub of a server reads."""
    path.write_text(json.dumps({prompt.name: list(prompt.answers) for prompt in prompts}), encoding="utf-8")
    return str(path)


_NUMBER = (
    """
kind = "multi_turn"
name = "number"
task = "Write 42 to number.txt."
tools = ["bash", "submit"]

[verify]
program = "verify.py"
""",
    """
def verify(work):
    return float(work.text("number.txt").strip() == "42")
""",
)
_SHARE = (
    """
name = "share"
task = "Write lower-case letters."

[verify]
kind = "program"
program = "verify.py"
""",
    """
def verify(solution):
    text = solution.source()
    return sum("a" <= char <= "z" for char in text) / max(1, len(text))
""",
)


def write_environments(folder: Path) -> list[str]:
    """Where the environments are that runs are about: names, and paths of what is written."""
    places = {NUMBER: _NUMBER, SHARE: _SHARE}
    for name, (manifest, verifier) in places.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "environment.toml").write_text(manifest, encoding="utf-8")
        (folder / name / "verify.py").write_text(verifier, encoding="utf-8")
    return [SINGLE, *(str(folder / name) for name in places)]
