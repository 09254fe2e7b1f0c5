"""The rows of a batch, and a policy whose every word is written down: it stands for the inference engine.

`import verl_samples` needs verl.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepgym.environments import (
    Case,
    Cases,
    Environment,
    EnvironmentLimits,
    EpisodeLimits,
    MultiTurnEnvironment,
    Program,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import numpy as np
    import torch
    from tensordict import TensorDict
    from verl.workers.rollout.replica import TokenOutput

    from verl import DataProto

__all__ = [
    "ADD",
    "NUMBER",
    "Counting",
    "Model",
    "Sample",
    "Turn",
    "batch_of",
    "call",
    "code",
    "episode",
    "response",
    "row_of",
    "tokenizer_of",
]

ADD = Environment(
    name="add",
    task="Write add(a, b), which returns the sum of two numbers.",
    verify=Cases(function="add", cases=(Case(args=(1, 2), expected=3), Case(args=(4, 0), expected=4))),
    limits=EnvironmentLimits(wall=2.0),
    reference="def add(a, b):\n    return a + b",
)
_VERIFIER = "def verify(work):\n    return float(work.text('number.txt').strip() == '42')\n"


def episode(name: str = "number", **fields: Any) -> MultiTurnEnvironment:
    """An environment in which 42 is to be written to `number.txt`; some `fields` may be limits."""
    limits = {"step": 5.0, "actions": 60.0, "steps": 20, "setup": 5.0, "verify": 5.0}
    limits.update({key: fields.pop(key) for key in list(fields) if key in EpisodeLimits.model_fields})
    return MultiTurnEnvironment(
        name=name,
        task="Write 42 to number.txt.",
        verify=Program(source=_VERIFIER),
        limits=EpisodeLimits(**limits),
        **fields,
    )


NUMBER = episode()

#: What is said in a turn: a text, which ends with the end-of-sequence token; tokens as they are; an exception
#: of the inference engine's; or a function that is called when the turn comes, and may wait.
Turn = str | list[int] | Exception | Callable[[], Awaitable[str]]


def code(text: str) -> str:
    return f"```python\n{text}\n```"


def call(name: str, **arguments: Any) -> str:
    """A tool call, as the parser `hermes` reads it."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


@dataclass(frozen=True)
class Sample:
    """One row of a batch and what is said to it, turn by turn."""

    turns: Sequence[Turn]
    env: str = "add"
    uid: str = "a"
    agent: str | None = "deepgym_single_turn"
    """`None`: as the configuration has it."""


class Counting:
    """A provider, and how many sessions it has `open_now` and has `opened` so far."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = inner.name
        self.opened = self.open_now = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def capabilities(self) -> Any:
        return self.inner.capabilities

    async def open(self, spec: Any) -> Any:
        return await self.inner.open(spec)

    async def host(self, place: Any) -> Any:
        space = await self.inner.host(place)
        self.opened += 1
        self.open_now += 1
        return _Counted(self, space)

    async def close(self) -> None:
        await self.inner.close()


class _Counted:
    def __init__(self, provider: Counting, inner: Any) -> None:
        self._provider, self._inner, self._closed = provider, inner, False
        self.id, self.capabilities = inner.id, inner.capabilities

    async def act(self, act: Any) -> Any:
        return await self._inner.act(act)

    async def copy(self, *, last: bool, room: int, files: int) -> bytes:
        found: bytes = await self._inner.copy(last=last, room=room, files=files)
        return found

    async def close(self) -> None:
        await self._inner.close()
        if not self._closed:
            self._closed = True
            self._provider.open_now -= 1


def row_of(sample: Sample, prompt: str) -> dict[str, Any]:
    return {
        "raw_prompt": [{"role": "user", "content": f"[{prompt}] {sample.env}?"}],
        "data_source": f"deepgym/{sample.env}",
        "reward_model": {"style": "rule", "ground_truth": sample.env},
        "extra_info": {"env": sample.env},
        "index": prompt,
        "uid": sample.uid,
    }


class Model:
    """What stands for the inference engine: `generate` says what is written down for a prompt.

    `script` has the answers to each prompt, by the text in its brackets: its trajectories take one each, in
    turn. `prompts` are the texts that were shown to it.
    """

    def __init__(self, tokenizer: Any, script: Mapping[str, Sequence[Sequence[Turn]]]) -> None:
        self.tokenizer = tokenizer
        self.prompts: list[str] = []
        self._script = {name: [list(turns) for turns in answers] for name, answers in script.items()}
        self._answers: dict[str, list[Turn]] = {}

    async def generate(self, request_id: str, *, prompt_ids: list[int], **given: Any) -> TokenOutput:
        text = self.tokenizer.decode(prompt_ids)
        self.prompts.append(text)
        if request_id not in self._answers:
            name = text.split("[", 1)[1].split("]", 1)[0]
            self._answers[request_id] = self._script[name].pop(0)
        turn = self._answers[request_id].pop(0)
        await asyncio.sleep(0)
        if callable(turn):
            turn = await turn()
        if isinstance(turn, Exception):
            raise turn
        tokens = (
            turn if isinstance(turn, list) else [*self.tokenizer.encode(turn), self.tokenizer.eos_token_id]
        )
        steps = {"global_steps": 0, "min_global_steps": 0, "max_global_steps": 0}
        logs = [-0.5] * len(tokens) if given["sampling_params"].get("logprobs") else None
        return TokenOutput(token_ids=tokens, log_probs=logs, extra_fields=steps)

    @property
    def left(self) -> int:
        """Turns and answers that nobody asked for."""
        return sum(map(len, self._script.values())) + sum(map(len, self._answers.values()))


def batch_of(samples: Sequence[Sample], *, validate: bool = False) -> Any:
    """Rows as verl's legacy trainer sends them to a worker; prompt number *i* is `p<i>`."""
    rows = [row_of(sample, f"p{number}") for number, sample in enumerate(samples)]
    columns = {name: _column([row[name] for row in rows]) for name in rows[0]}
    if any(sample.agent for sample in samples):
        columns["agent_name"] = _column([sample.agent for sample in samples])
    about = {"global_steps": 1, "validate": validate}
    return DataProto(batch=None, non_tensor_batch=columns, meta_info=about)


def response(tokenizer: Any, text: str, row: Mapping[str, Any]) -> Any:
    """A response as an agent loop's worker hands it to a reward worker."""
    prompt = torch.tensor([tokenizer.encode("?")])
    said = torch.tensor([[*tokenizer.encode(text), tokenizer.eos_token_id]])
    ids = torch.cat([prompt, said], dim=1)
    tensors = {"prompts": prompt, "responses": said, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    columns = {name: _column([value]) for name, value in row.items()}
    # What verl adds of an agent loop's output.
    extra = {"turn_scores": [], "tool_rewards": [], "min_global_steps": 0, "max_global_steps": 0}
    columns |= {"__num_turns__": np.array([2]), "tool_extra_fields": _column([extra])}
    return DataProto(batch=TensorDict(tensors, batch_size=1), non_tensor_batch=columns)


def tokenizer_of(model: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)


def _column(values: Sequence[Any]) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = list(values)
    return found
