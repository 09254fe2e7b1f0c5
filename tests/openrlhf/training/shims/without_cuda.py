"""What OpenRLHF asks of CUDA, answered on a machine that has none. Importing it is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
import torch.distributed.device_mesh


class _Device(str):
    """``"cpu"`` as a device; in ``f"cuda:{device}"`` the number of one, which is parsed and never used."""

    def __format__(self, spec: str) -> str:
        return "0"


def _nothing() -> Callable[..., None]:
    """A function that does nothing; one for each name, because torch's compiler asks whose each is."""
    return lambda *args, **options: None


def _mesh(device_type: str, *args: Any, **options: Any) -> Any:
    return _real_mesh("cpu" if device_type == "cuda" else device_type, *args, **options)


_real_mesh = torch.distributed.device_mesh.init_device_mesh
torch.distributed.device_mesh.init_device_mesh = torch.distributed.init_device_mesh = _mesh
torch.cuda.current_device = lambda: _Device("cpu")
for _name in ("set_device", "synchronize", "empty_cache", "current_stream"):
    setattr(torch.cuda, _name, _nothing())
