"""What stands for vLLM in verl: a replica whose server is the stub, and weights that go there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import ray
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica

__all__ = ["StubReplica", "StubRollout"]

_NAME = "deepgym_stub_server"


class StubRollout(BaseRollout):
    async def resume(self, tags: list[str]) -> None:
        return None

    async def release(self) -> None:
        return None

    async def update_weights(self, weights: Iterable[tuple[str, Any]], **options: Any) -> None:
        # A generator that nobody exhausts leaves verl waiting.
        found = {name: value.cpu().numpy() for name, value in weights}
        server = ray.get_actor(_NAME)
        await server.update.remote(options.get("global_steps"), found)


class StubReplica(RolloutReplica):
    async def launch_servers(self) -> None:
        from verl_stub_server import StubServer

        made = StubServer.options(name=_NAME, max_concurrency=1000)
        server = made.remote(self.model_config.path, os.environ.get("DEEPGYM_VERL_SCRIPT"))
        self.servers, self._server_handle, self._server_address = [server], server, "stub"
