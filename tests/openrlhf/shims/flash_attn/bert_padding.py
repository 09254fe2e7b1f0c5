"""Names that OpenRLHF imports; none is called without a model on a GPU."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["index_first_axis", "pad_input", "rearrange", "unpad_input"]


def _missing(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("flash-attn isn't here")


index_first_axis = pad_input = rearrange = unpad_input = _missing
