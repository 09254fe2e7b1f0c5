"""`driver.py RAY_FOLDER FLAG...`: OpenRLHF's `train_ppo_ray` on a Ray of its own, which claims to have GPUs."""

from __future__ import annotations

import runpy
import sys

import ray


def main(folder: str, flags: list[str]) -> None:
    # "local": never a Ray that runs on this machine already.
    ray.init(
        address="local",
        num_cpus=4,
        num_gpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
        _temp_dir=folder,
        _node_ip_address="127.0.0.1",
        _system_config={"prestart_worker_first_driver": False, "worker_niceness": 0},
    )
    try:
        sys.argv = ["train_ppo_ray", *flags]
        runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
