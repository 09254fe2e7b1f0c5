"""OpenRLHF's own client, loaded without torch, with an engine that says what it is told to.

``openrlhf/utils/__init__.py`` wants torch; ``agent.py`` beside it wants aiohttp alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

END = "<|im_end|>"
_END_ID = 0x110000


def load_agent() -> ModuleType:
    """``openrlhf.utils.agent`` of the installed version."""
    found = importlib.util.find_spec("openrlhf")
    assert found is not None
    assert found.submodule_search_locations
    name = "openrlhf.utils"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [f"{folder}/utils" for folder in found.submodule_search_locations]
        sys.modules[name] = package
    return importlib.import_module(f"{name}.agent")


class _Ids(list[int]):
    def tolist(self) -> list[int]:
        return list(self)


class Tokenizer:
    """One token a character, and one for the end of a turn."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[_Ids]]:
        return {"input_ids": [_Ids(self.encode(text))]}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for number, part in enumerate(text.split(END)):
            ids += [_END_ID] * (number > 0) + [ord(char) for char in part]
        return ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        special = "" if skip_special_tokens else END
        return "".join(special if number == _END_ID else chr(number) for number in ids)


class Engine:
    """Generates ``response`` whatever it is asked."""

    def __init__(self, response: str, tokenizer: Tokenizer) -> None:
        self.text, self.ids = response, [*tokenizer.encode(response), _END_ID]

    async def generate(self, ids: object, params: object, multi_modal_data: object = None) -> SimpleNamespace:
        output = SimpleNamespace(token_ids=self.ids, text=self.text, finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[output])


class Trainer:
    """As much of a rollout as a reward sees: one executor, and samples that are generated at once."""

    def __init__(self, *urls: str, max_length: int = 1 << 20) -> None:
        self.executor = load_agent().SingleTurnAgentExecutor(list(urls))
        self.max_length = max_length
        self._tokenizer = Tokenizer()

    async def sample(
        self, response: str, label: object = None, prompt: str = "Write it.\n"
    ) -> dict[str, Any]:
        """What the trainer has of one sample."""
        params = SimpleNamespace(max_tokens=16, logprobs=None)
        found: dict[str, Any] = await self.executor.execute(
            prompt, label, params, self.max_length, self._tokenizer, Engine(response, self._tokenizer)
        )
        return found


def fenced(code: str) -> str:
    return f"Here it is:\n```python\n{code}\n```\n"
