from __future__ import annotations

from typing import Any


def all_gather(*args: Any, **options: Any) -> Any:
    raise NotImplementedError("flash-attn isn't here")
