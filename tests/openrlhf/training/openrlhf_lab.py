"""A real training run of OpenRLHF's own command on the CPU, and all that its rewards were made of."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: Samples of a prompt, prompts of a step, and prompts of the dataset, which is gone through once.
GROUP, PROMPTS, ROWS = 4, 8, 128
#: Seconds for a run, the first building of DeepSpeed's optimizer included.
PATIENCE = 600

_STEP = re.compile(r"Global step \d+: (\{.*\})")
_FLAGS = (
    *("--actor.num_nodes", "1", "--actor.num_gpus_per_node", "1"),
    *("--vllm.num_engines", "1", "--vllm.tensor_parallel_size", "1", "--vllm.sync_backend", "gloo"),
    *("--ds.zero_stage", "2", "--ds.attn_implementation", "eager", "--ckpt.disable_ds"),
    *("--algo.advantage.estimator", "group_norm", "--algo.kl.init_coef", "0"),
    *("--actor.adam.lr", "4e-2", "--actor.lr_warmup_ratio", "0"),
    *("--rollout.n_samples_per_prompt", str(GROUP), "--rollout.batch_size", str(PROMPTS)),
    *("--rollout.micro_batch_size", "8", "--train.batch_size", str(GROUP * PROMPTS)),
    *("--train.micro_batch_size", "8", "--train.num_episodes", "1"),
    *("--data.max_len", "64", "--rollout.max_new_tokens", "12"),
    *("--data.input_key", "input", "--data.label_key", "label"),
)


@dataclass(frozen=True)
class Sample:
    """What the trainer asked about, and what it was told."""

    prompt: str
    text: str
    reward: float
    score: float
    logs: Mapping[str, float]
    tokens: tuple[int, int] = (0, 0)
    """In agent mode: tokens that are trained on, and tokens of the response."""

    @property
    def judged(self) -> bool:
        return self.logs["no_verdict"] == 0.0


@dataclass
class Run:
    """How a run ended: its status (0), what it logged of each step, and processes that it left behind."""

    status: int
    steps: list[dict[str, float]]
    said: str
    left: list[str] = field(default_factory=list)

    def curve(self, name: str) -> list[float]:
        return [step[name] for step in self.steps]


def groups(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Each prompt's samples, in the order in which the groups were complete."""
    open_groups: dict[str, list[Sample]] = {}
    found = []
    for sample in samples:
        group = open_groups.setdefault(sample.prompt, [])
        group.append(sample)
        if len(group) == GROUP:
            found.append(open_groups.pop(sample.prompt))
    assert not open_groups
    return found


def dataset(folder: Path, count: int) -> str:
    """The path of a file of prompts."""
    path = folder / "prompts.jsonl"
    rows = [{"input": f"Say something {row}:", "label": f"row {row}"} for row in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


async def train(
    model: str,
    folder: Path,
    flags: Sequence[str],
    environment: Mapping[str, str] | None = None,
    rows: int = ROWS,
) -> Run:
    """Run the trainer to its end, or to the end of our patience."""
    said, report = folder / "said.txt", folder / "report.json"
    # Ray's sockets have their place there, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as ray:
        paths = ("--actor.model_name_or_path", model, "--data.prompt_dataset", dataset(folder, rows))
        with said.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(HERE / "keeper.py"), str(PATIENCE), str(report)),
                *(sys.executable, str(HERE / "driver.py"), ray, *_FLAGS, *paths),
                *("--ckpt.output_dir", str(folder / "trained"), *flags),
                cwd=folder,
                env=_environment() | {"HF_HOME": str(folder / "cache")} | (environment or {}),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.terminate()
                    await process.wait()
        logs = [path.read_text(errors="replace") for path in Path(ray).glob("session_2*/logs/worker-*")]
    steps = [ast.literal_eval(found) for log in logs for found in _STEP.findall(log)]
    ended = json.loads(report.read_text(encoding="utf-8"))
    errors = "" if ended["status"] == 0 else "\n".join(log[-3000:] for log in logs)
    return Run(ended["status"], steps, said.read_text(errors="replace") + errors, ended["left"])


def _environment() -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE / "shims"), *([before] if before else [])]),
        # What the driver claims to have.
        "CUDA_VISIBLE_DEVICES": "0,1",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
    }


class Recording:
    """An app, and every answer that it gave to the trainer, in order."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.samples: list[Sample] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        asked, told = bytearray(), bytearray()

        async def hear() -> Any:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def tell(message: Any) -> None:
            told.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, hear, tell)
        self._record(json.loads(asked), json.loads(told))

    def _record(self, asked: dict[str, Any], told: dict[str, Any]) -> None:
        for at, (query, prompt) in enumerate(zip(asked["query"], asked["prompts"], strict=True)):
            logs = {name: values[at] for name, values in told["extra_logs"].items()}
            numbers = told["rewards"][at], told["scores"][at]
            self.samples.append(Sample(prompt, query.removeprefix(prompt), *numbers, logs))


async def serve_and_train(
    app: Any, model: str, folder: Path, flags: Sequence[str] = (), rows: int = ROWS
) -> tuple[Run, list[Sample]]:
    """Train with ``app`` as the endpoint, on loopback."""
    import uvicorn

    recording = Recording(app)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(recording, log_level="warning"))
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/get_reward"
            run = await train(model, folder, ["--reward.remote_url", url, *flags], rows=rows)
        finally:
            server.should_exit = True
            await serving
    return run, recording.samples


async def train_with_agent(model: str, folder: Path, flags: Sequence[str] = ()) -> tuple[Run, list[Sample]]:
    """Train with an agent file, which notes its answers."""
    notes = folder / "notes.jsonl"
    notes.touch()
    agent = ["--train.agent_func_path", str(HERE / "agent_file.py"), *flags]
    run = await train(model, folder, agent, {"DEEPGYM_TRAINING_NOTES": str(notes)})
    return run, [Sample(**json.loads(line)) for line in notes.read_text(encoding="utf-8").splitlines()]
