"""OpenRLHF's own client of reward endpoints, without the rest of it.

``openrlhf.utils`` imports torch and transformers; the client in it needs only aiohttp.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = ["ask", "executor_of", "load"]

#: More tokens, which are characters here, than any prompt has.
_LENGTH = 1_000_000


def load() -> ModuleType:
    """The module ``openrlhf.utils.agent``. Changes what ``openrlhf.utils`` is in this process.

    Raises:
        ImportError: OpenRLHF isn't installed, has no such client (before 0.9.1), or lacks what it needs.
    """
    spec = find_spec("openrlhf")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("openrlhf isn't installed", name="openrlhf")
    if "openrlhf.utils" not in sys.modules:
        package = ModuleType("openrlhf.utils")
        package.__path__ = [f"{folder}/utils" for folder in spec.submodule_search_locations]
        sys.modules["openrlhf.utils"] = package
    return import_module("openrlhf.utils.agent")


def executor_of(*urls: str) -> Any:
    """What a rollout asks for rewards, for these addresses or this Python file.

    Raises:
        ImportError: as ``load``.
    """
    return load().SingleTurnAgentExecutor(list(urls))


async def ask(
    executor: Any, prompt: str, response: str, label: object = None, *, length: int = _LENGTH
) -> dict[str, Any]:
    """What ``executor`` returns for a policy that answers ``prompt`` with ``response``.

    ``reward``, ``scores`` and ``extra_logs`` in it are what was understood of the endpoint's answer;
    ``reward`` is ``None`` where five attempts got none, which ends a training run. A prompt of more than
    ``length`` characters, less the response's, is cut from the left.
    """
    limits = SimpleNamespace(max_tokens=len(response), logprobs=None)
    found: dict[str, Any] = await executor.execute(
        prompt, label, limits, length, _Characters(), _Policy(response)
    )
    return found


class _Characters:
    """A tokenizer whose tokens are characters."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[_Tokens]]:
        return {"input_ids": [_Tokens(map(ord, text))]}

    def decode(self, tokens: Sequence[int], **_: Any) -> str:
        return "".join(map(chr, tokens))


class _Tokens(list[int]):
    def tolist(self) -> list[int]:
        return list(self)


class _Policy:
    """An engine that always answers the same."""

    def __init__(self, response: str) -> None:
        self.response = response

    async def generate(self, *_: Any, **__: Any) -> Any:
        tokens = list(map(ord, self.response))
        output = SimpleNamespace(token_ids=tokens, text=self.response, finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[output])
