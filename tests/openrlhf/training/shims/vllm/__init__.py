"""As much of vLLM as OpenRLHF calls, with transformers in its place: vLLM has no build for the CPU."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import without_cuda  # noqa: F401 - every process of the trainer's imports vLLM early

__version__ = "0.29.0"
__all__ = ["AsyncEngineArgs", "AsyncLLMEngine", "SamplingParams"]


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_tokens: int | None = 16
    min_tokens: int = 0
    skip_special_tokens: bool = True
    logprobs: int | None = None


@dataclass
class AsyncEngineArgs:
    model: str
    seed: int = 0

    def __init__(self, model: str, seed: int = 0, **options: Any) -> None:
        self.model, self.seed = model, seed


class AsyncLLMEngine:
    """One model, which samples one request at a time."""

    def __init__(self, args: AsyncEngineArgs) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.manual_seed(args.seed)
        self._words = AutoTokenizer.from_pretrained(args.model)
        self._model = AutoModelForCausalLM.from_pretrained(
            args.model, attn_implementation="eager", dtype=torch.bfloat16
        )
        self._model.eval()
        self._weights = dict(self._model.named_parameters())
        self._alone = threading.Lock()
        self._open = 0
        self._source: Any = None
        self.output_processor = SimpleNamespace(get_num_unfinished_requests=lambda: self._open)

    @classmethod
    def from_engine_args(cls, args: AsyncEngineArgs) -> AsyncLLMEngine:
        return cls(args)

    async def is_sleeping(self) -> bool:
        return False

    async def reset_prefix_cache(self) -> None:
        return None

    async def collective_rpc(self, name: str, args: tuple[Any, ...] = ()) -> list[Any]:
        """OpenRLHF's worker extension, which needs vLLM's model runner, by the names of its methods."""
        await asyncio.to_thread(
            {"init_process_group": self._join, "update_weight": self._update}[name], *args
        )
        return [None]

    def _join(self, host: str, port: int, rank: int, size: int, *_: Any) -> None:
        from openrlhf.utils.distributed_util import stateless_init_process_group

        self._source = stateless_init_process_group(host, port, rank, size, "cpu")

    def _update(self, name: str, dtype: Any, shape: Any, *_: Any) -> None:
        import torch

        received = torch.empty(tuple(shape), dtype=dtype)
        self._source.broadcast(received, src=0)
        # A head that is tied to the embedding comes under a name of its own.
        if name in self._weights:
            with self._alone, torch.no_grad():
                self._weights[name].copy_(received)

    async def generate(
        self, prompt: dict[str, Any], params: SamplingParams, request_id: str
    ) -> AsyncIterator[SimpleNamespace]:
        self._open += 1
        try:
            tokens = await asyncio.to_thread(self._sample, prompt["prompt_token_ids"], params)
        finally:
            self._open -= 1
        ended = bool(tokens) and tokens[-1] == self._words.eos_token_id
        text = self._words.decode(tokens, skip_special_tokens=params.skip_special_tokens)
        output = SimpleNamespace(
            token_ids=tokens, text=text, finish_reason="stop" if ended else "length", logprobs=None
        )
        yield SimpleNamespace(outputs=[output])

    def _sample(self, prompt: Sequence[int], params: SamplingParams) -> list[int]:
        import torch

        ids = torch.tensor([list(prompt)])
        with self._alone, torch.no_grad():
            whole = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=params.max_tokens,
                do_sample=True,
                temperature=params.temperature,
                top_k=0,
                pad_token_id=self._words.pad_token_id,
                eos_token_id=self._words.eos_token_id,
            )
        found: list[int] = whole[0, len(prompt) :].tolist()
        return found
