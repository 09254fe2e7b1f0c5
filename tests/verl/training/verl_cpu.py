"""Lets verl's own trainers run where there is no accelerator: `import verl` loads it (VERL_USE_EXTERNAL_MODULES).

What stands for hardware is put where verl has places for it: a platform, an engine that is verl's FSDP engine
without FSDP, and a rollout whose server is a stub. What would ask for NCCL or flash-attn is replaced. Agent
and reward loops, TransferQueue, replay buffer, advantages, loss, optimizer and metrics are verl's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

__all__ = ["PlatformCPU"]


def _nothing(*args: Any, **options: Any) -> None:
    return None


def _zero(*args: Any, **options: Any) -> int:
    return 0


def _device_module() -> ModuleType:
    """What stands for `torch.cuda`."""
    module: Any = ModuleType("deepgym_verl_cpu_device")
    module.is_available = lambda: False
    for name in ("empty_cache", "synchronize", "reset_peak_memory_stats", "ipc_collect", "set_device"):
        setattr(module, name, _nothing)
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        setattr(module, name, _zero)
    module.mem_get_info = lambda *args: (0, 1)
    module.current_device = lambda: "cpu"
    module.device_count = lambda: 1
    module.get_device_name = lambda *args: "CPU"
    module.manual_seed = module.manual_seed_all = torch.manual_seed
    module.get_rng_state, module.set_rng_state = torch.get_rng_state, torch.set_rng_state
    found: ModuleType = module
    return found


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False  # VERL_PLATFORM asks for it

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "GPU"  # Ray is told of one that isn't there

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    def cudart(self) -> None:
        return None


def _process_group(timeout_second: int | None = None, backend: str | None = None) -> None:
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group(
            backend="gloo",
            rank=int(os.environ.get("RANK", "0")),
            world_size=int(os.environ.get("WORLD_SIZE", "1")),
            init_method=os.environ.get("DIST_INIT_METHOD"),
        )


def _replica() -> Any:
    """verl asks for it in the trainer's process, when the trainer is there."""
    import verl_recorder
    from verl_cpu_rollout import StubReplica

    verl_recorder.install()
    return StubReplica


def _install() -> None:
    # These ask for the platform as soon as they are imported.
    import verl.utils.attention_utils
    import verl.utils.distributed
    import verl_cpu_engine
    import verl_cpu_padding
    from verl.workers.rollout import base
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    verl.utils.distributed.initialize_global_process_group_ray = _process_group
    if version("verl") == "0.9.0":
        verl.utils.attention_utils._get_attention_functions = verl_cpu_padding.functions
    verl_cpu_engine.register()
    base._ROLLOUT_REGISTRY["vllm", "async"] = "verl_cpu_rollout.StubRollout"
    RolloutReplicaRegistry.register("vllm", _replica)


_install()
