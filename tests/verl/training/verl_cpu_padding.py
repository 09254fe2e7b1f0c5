"""What verl 0.9.0 takes from flash-attn in its legacy trainer; later versions do without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["functions"]


def _chosen(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return values.index_select(0, places)


def _unpadded(values: torch.Tensor, mask: torch.Tensor) -> tuple[Any, ...]:
    """What isn't padding, one row after another, and where it was."""
    places = mask.flatten().nonzero().squeeze(-1)
    lengths = mask.sum(-1, dtype=torch.int32)
    ends = torch.cat([lengths.new_zeros(1), lengths.cumsum(0, dtype=torch.int32)])
    return _chosen(values.flatten(0, 1), places), places, ends, int(lengths.max()), lengths


def _padded(values: torch.Tensor, places: torch.Tensor, rows: int, length: int) -> torch.Tensor:
    whole = values.new_zeros(rows * length, *values.shape[1:])
    return whole.index_copy(0, places, values).unflatten(0, (rows, length))


def _unused(*args: Any, **options: Any) -> Any:
    raise NotImplementedError


def functions() -> tuple[Callable[..., Any], ...]:
    """``index_first_axis``, ``pad_input``, ``rearrange`` and ``unpad_input``."""
    return _chosen, _padded, _unused, _unpadded
