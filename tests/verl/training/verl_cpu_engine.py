"""verl's FSDP engine without FSDP: the plain module, in single precision, where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["register"]


class _Plain:
    module: Any

    def _build_fsdp_module(self, module: Any) -> Any:
        self._autocast_dtype = torch.float32
        self.scaler = None
        return module

    def to(self, *args: Any, **options: Any) -> None:
        """There is no other device."""

    def get_per_tensor_param(self, **options: Any) -> tuple[Iterator[tuple[str, Any]], None]:
        return ((name, value.detach()) for name, value in self.module.named_parameters()), None


def register() -> None:
    """Add it to verl's engines."""
    import verl.workers.engine  # noqa: F401 - registers its own
    from verl.workers.engine.base import EngineRegistry
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    made = type("CPUEngineWithLMHead", (_Plain, FSDPEngineWithLMHead), {})
    EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")(made)
