"""The policy that is trained, as a server of it would sample: one token after another, by seeds of its own."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

__all__ = ["LENGTH", "Policy"]

#: Tokens of an answer.
LENGTH = 12


class Policy:
    def __init__(self, path: str) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()

    def load(self, weights: dict[str, Any]) -> None:
        self.model.load_state_dict(
            {name: torch.from_numpy(value.copy()) for name, value in weights.items()}, strict=False
        )

    @torch.no_grad()
    def sample(self, prompt: list[int], seed: str) -> tuple[list[int], list[float]]:
        """Tokens, and their logarithmic probabilities. The same for the same weights, prompt and seed."""
        dice = torch.Generator().manual_seed(
            int.from_bytes(hashlib.sha256(seed.encode()).digest()[:6], "big")
        )
        end = self.model.config.eos_token_id
        said: list[int] = []
        logs: list[float] = []
        while len(said) < LENGTH and end not in said:
            out = self.model(torch.tensor([prompt + said])).logits[0, -1].float()
            chances = torch.softmax(out, -1)
            token = int(torch.multinomial(chances, 1, generator=dice))
            said.append(token)
            logs.append(float(chances[token].log()))
        return said, logs
