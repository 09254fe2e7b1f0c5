"""A server of a language model that says what a script has, or, without one, what the trained policy samples."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import ray
from verl.workers.rollout.replica import TokenOutput
from verl_plan import GROUP

__all__ = ["StubServer"]

_BEGIN = "<|im_start|>assistant\n"
#: What an answer begins with: the sample's letter, which its tokens are sorted by, and how often its prompt
#: had come up.
_SAID = re.compile(re.escape(_BEGIN) + r"([A-Z])(\d+):\n")
_PROMPT = re.compile(r"\[([^\]]+)\]")


@ray.remote(num_cpus=0)
class StubServer:
    def __init__(self, model: str, script: str | None) -> None:
        from transformers import AutoTokenizer

        self.words = AutoTokenizer.from_pretrained(model)
        self.script = None if script is None else json.loads(Path(script).read_text(encoding="utf-8"))
        self.came: Counter[str] = Counter()
        self.steps: int | None = 0
        self.policy: Any = None
        self.numbered = False
        if script is None:
            from verl_policy import Policy

            self.policy = Policy(model)

    def update(self, steps: int | None, weights: dict[str, Any]) -> None:
        self.steps = steps
        if self.policy is not None:
            self.policy.load(weights)

    async def generate(
        self,
        request_id: str,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        priority: int | None = None,
        **options: Any,
    ) -> TokenOutput:
        text = self.words.decode(prompt_ids)
        if self.script is None:
            name = _found(_PROMPT, text)[1]
            ids, logs = self.policy.sample(prompt_ids, f"{name} {self._turn(name)}")
        else:
            ids = [*self.words.encode(self._scripted(text, priority)), self.words.eos_token_id]
            logs = [-1.0] * len(ids)
        return TokenOutput(
            token_ids=ids,
            log_probs=logs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            num_preempted=0,
            extra_fields={"global_steps": self.steps},
        )

    def _turn(self, name: str) -> int:
        self.came[name] += 1
        return self.came[name] - 1

    def _scripted(self, text: str, priority: int | None) -> str:
        name = _found(_PROMPT, text)[1]
        answers, said = self.script[name], _SAID.search(text)
        if said is not None:
            again, sample = int(said[2]), ord(said[1]) - ord("A")
            turns = answers[(again * GROUP + sample) % len(answers)]
            return str(turns[min(text.count(_BEGIN) - 1, len(turns) - 1)])
        again, sample = divmod(self._turn(name), GROUP)
        # The legacy trainer numbers a batch's samples, but for the first and those of agents. Which sample asks
        # first isn't always the same.
        self.numbered |= priority is not None
        if self.numbered and all(len(turns) == 1 for turns in answers):
            sample = (priority or 0) % GROUP
        return f"{chr(ord('A') + sample)}{again}:\n{answers[(again * GROUP + sample) % len(answers)][0]}"

    async def wake_up(self) -> None: ...
    async def sleep(self) -> None: ...
    async def abort_all_requests(self, reject_request: bool = False) -> None: ...
    async def resume_generation(self) -> None: ...
    async def clear_kv_cache(self) -> None: ...
    async def release_kv_cache(self) -> None: ...
    async def resume_kv_cache(self) -> None: ...


def _found(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.search(text)
    if found is None:
        raise ValueError(f"no {pattern.pattern} in {text!r}")
    return found
