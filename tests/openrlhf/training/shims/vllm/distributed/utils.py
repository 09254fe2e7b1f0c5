from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed

PATIENCE = timedelta(minutes=5)


class StatelessProcessGroup:
    """A group beside the default one: gloo's, where vLLM has none and lets NCCL make it."""

    @staticmethod
    def create(host: str, port: int, rank: int, world_size: int) -> Any:
        store = torch.distributed.TCPStore(host, port, world_size, is_master=rank == 0, timeout=PATIENCE)
        return torch.distributed.ProcessGroupGloo(store, rank, world_size, PATIENCE)
