"""Whole runs of verl's own command on the CPU, and all that came of them."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from verl_plan import GROUP, Prompt, write_data, write_environments, write_script

__all__ = ["ASYNC", "LEGACY", "SYNC", "Run", "groups", "names", "train"]

HERE = Path(__file__).parent
#: Ends a command with all that it started.
KEEPER = HERE.parents[1] / "openrlhf" / "training" / "keeper.py"
#: Seconds for a run; one takes about a minute on two idle cores.
PATIENCE = 420

#: Flags of each trainer.
LEGACY = ("trainer.use_v1=False",)
SYNC = (
    "trainer.v1.trainer_mode=sync",
    "trainer.v1.sampler.custom_sampler.path=pkg://verl_sampler",
    "trainer.v1.sampler.custom_sampler.name=Sync",
)
ASYNC = (
    "trainer.v1.trainer_mode=colocate_async",
    "trainer.v1.sampler.custom_sampler.path=pkg://verl_sampler",
    "trainer.v1.sampler.custom_sampler.name=Async",
    # Each step trains on what it asked for itself.
    "trainer.v1.colocate_async.num_warmup_batches=0",
    "data.gen_batch_size=1",
)

_FLAGS = (
    *("data.train_batch_size=2", "data.val_batch_size=2", "data.max_prompt_length=64"),
    *("data.shuffle=False", "data.dataloader_num_workers=0", "data.filter_overlong_prompts=False"),
    "actor_rollout_ref.model.use_remove_padding=False",
    "actor_rollout_ref.model.enable_gradient_checkpointing=False",
    "+actor_rollout_ref.model.override_config.attn_implementation=eager",
    "actor_rollout_ref.rollout.name=vllm",
    f"actor_rollout_ref.rollout.n={GROUP}",
    f"actor_rollout_ref.rollout.val_kwargs.n={GROUP}",
    "actor_rollout_ref.rollout.val_kwargs.do_sample=True",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "actor_rollout_ref.rollout.free_cache_engine=False",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
    *(
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    ),
    "actor_rollout_ref.actor.use_torch_compile=False",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
    *("actor_rollout_ref.actor.optim.lr=1e-2", "critic.enable=False", "reward.num_workers=1"),
    *("trainer.device=cpu", "trainer.n_gpus_per_node=1", "trainer.nnodes=1", "trainer.logger=[console,file]"),
    *("trainer.save_freq=-1", "trainer.resume_mode=disable", "trainer.total_epochs=1"),
    "trainer.balance_batch=False",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    # TransferQueue's own processes ask for a core each; the cores are Ray's to count, not to use.
    "ray_kwargs.ray_init.num_cpus=32",
    "+ray_kwargs.ray_init.num_gpus=1",
    "+ray_kwargs.ray_init.address=local",
    "+ray_kwargs.ray_init.include_dashboard=False",
    "+ray_kwargs.ray_init.object_store_memory=100000000",
    "+ray_kwargs.ray_init._node_ip_address=127.0.0.1",
    "+ray_kwargs.ray_init._system_config.prestart_worker_first_driver=False",
    "+ray_kwargs.ray_init._system_config.worker_niceness=0",
)


@dataclass
class Run:
    """How a run ended, and what it wrote down on its way."""

    status: int
    """0, unless it failed; -1 if it was given up."""
    said: str
    seconds: float
    left: list[str]
    """Processes that it left behind."""
    logged: dict[int, dict[str, float]]
    """verl's own metrics by step."""
    advantages: list[list[dict[str, Any]]]
    """Of each step: the `uid`, `score`, number of trained `tokens` and `advantage` of every row."""
    trained: dict[int, list[dict[str, Any]]]
    """verl's own dump of the rows of each step."""
    validated: dict[int, list[dict[str, Any]]]
    sessions: list[str] = field(default_factory=list)
    """`opened ID` and `closed ID`."""

    @property
    def open_sessions(self) -> set[str]:
        opened, closed = (
            {line.split()[1] for line in self.sessions if line.startswith(word)}
            for word in ("opened", "closed")
        )
        assert closed <= opened
        return opened - closed


def groups(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The recorded rows of each prompt, without those that verl fills a batch up with."""
    real = [row for row in rows if not row["uid"].startswith("pad")]
    return [list(group) for _, group in groupby(real, key=lambda row: row["uid"])]


def names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The prompts of dumped rows, sorted; a row that fills a batch up has none."""
    return sorted(row["input"].split("[")[1].split("]")[0] for row in rows if "[" in row["input"])


def train(
    model: str,
    folder: Path,
    flags: Sequence[str],
    training: Sequence[Prompt],
    validation: Sequence[Prompt] = (),
    *,
    rewards: Mapping[str, object] | None = None,
    scripted: bool = True,
    lost: float = 0.0,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Run the trainer in a new folder, to its end or to the end of our patience.

    `rewards` are options of DeepGym's beside its environments and the provider `flaky`. If it isn't
    `scripted`, what is said is sampled from the policy. Of the runs a share `lost` fails, whatever is in them.
    """
    folder.mkdir()
    prompts = [*training, *validation]
    variables = {
        "DEEPGYM_VERL_ADVANTAGES": folder / "advantages.jsonl",
        "DEEPGYM_VERL_LOST": lost,
        "DEEPGYM_VERL_SESSIONS": folder / "sessions.txt",
        "HF_HOME": folder / "cache",
        "PYTHONPATH": os.pathsep.join([str(HERE), _entry_points(folder), os.environ.get("PYTHONPATH", "")]),
        # Otherwise Ray writes one into the home directory.
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "VERL_FILE_LOGGER_PATH": folder / "metrics.jsonl",
    }
    if scripted:
        variables["DEEPGYM_VERL_SCRIPT"] = write_script(folder / "script.json", prompts)
    places = ",".join(write_environments(folder / "environments"))
    options = {"env": f"[{places}]", "mode": "flaky", **(rewards or {})}
    config = [
        f"data.train_files={write_data(folder / 'train.parquet', training)}",
        f"data.val_files={write_data(folder / 'val.parquet', validation or training[:1])}",
        f"actor_rollout_ref.model.path={model}",
        "reward.custom_reward_function.path=pkg://deepgym_verl.reward",
        "reward.custom_reward_function.name=compute_score",
        *(f"+reward.custom_reward_function.reward_kwargs.{name}={value}" for name, value in options.items()),
        f"trainer.rollout_data_dir={folder / 'trained'}",
        f"trainer.validation_data_dir={folder / 'validated'}",
        f"trainer.val_before_train={bool(validation)}",
        f"trainer.test_freq={1 if validation else -1}",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]
    begin = time.monotonic()
    # Ray's sockets have their place there, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as ray:
        overrides = [*_FLAGS, *config, *flags, f"+ray_kwargs.ray_init._temp_dir={ray}"]
        said = _run(folder, overrides, variables | dict(environment or {}))
    ended = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return Run(
        status=ended["status"],
        said=said,
        seconds=time.monotonic() - begin,
        left=ended["left"],
        logged={line["step"]: line["data"] for line in _lines(folder / "metrics.jsonl")},
        advantages=_lines(folder / "advantages.jsonl"),
        trained=_dumps(folder / "trained"),
        validated=_dumps(folder / "validated"),
        sessions=_text(folder / "sessions.txt").splitlines(),
    )


def _run(folder: Path, config: Sequence[str], variables: Mapping[str, object]) -> str:
    said = folder / "said.txt"
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *config]
    keeper = [sys.executable, str(KEEPER), str(PATIENCE), str(folder / "report.json")]
    with said.open("wb") as out:
        subprocess.run(
            [*keeper, *command],
            cwd=folder,
            env=_environment() | {name: str(value) for name, value in variables.items()},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            check=False,
        )
    return _text(said)


def _environment() -> dict[str, str]:
    return os.environ | {
        # What Ray is told of; there is none.
        "CUDA_VISIBLE_DEVICES": "0",
        "GLOO_SOCKET_IFNAME": "lo",
        "HF_HUB_OFFLINE": "1",
        "HYDRA_FULL_ERROR": "1",
        "OMP_NUM_THREADS": "1",
        # Ray would hide GPUs that it thinks there are from processes that have none.
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
    }


def _entry_points(folder: Path) -> str:
    """A folder that offers the provider `flaky` to whatever has it in its path."""
    place = folder / "offers"
    info = place / "deepgym_verl_tests-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deepgym-verl-tests\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[deepgym.providers]\nflaky = verl_flaky:flaky\n")
    return str(place)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in _text(path).splitlines()]


def _dumps(folder: Path) -> dict[int, list[dict[str, Any]]]:
    return {int(path.stem): _lines(path) for path in sorted(folder.glob("*.jsonl"))}
