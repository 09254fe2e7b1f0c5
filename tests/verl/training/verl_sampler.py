"""verl's replay buffers, which give a batch's rows in the order of their prompts and samples.

verl gives them in the order in which they were graded, so that a sum over them isn't the same to the bit in
another run. The configuration has a place for a sampler of one's own.
"""

from __future__ import annotations

from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

__all__ = ["Async", "Sync"]

#: Seconds, instead of two.
_POLL = 0.1


def _ordered(batch: Any) -> Any:
    fields = ["extra_info", "responses"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    names = [info["prompt"] for info in data.get("extra_info").tolist()]
    texts = [tokens.tolist() for tokens in data.get("responses").unbind()]
    places = sorted(range(len(names)), key=lambda row: (names[row], texts[row], batch.keys[row]))
    batch.reorder(places)
    return batch


class Sync(ReplayBuffer):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, poll_interval=_POLL)

    def _materialize_batch(self, *args: Any) -> Any:
        return _ordered(super()._materialize_batch(*args))


class Async(ReplayBufferAsync):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, poll_interval=_POLL)

    def _materialize_batch(self, *args: Any) -> Any:
        return _ordered(super()._materialize_batch(*args))
