"""Questions that another process answers, which may load a trainer, hang or die without harm to this one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["SECONDS", "answers_of"]

#: For a trainer's process; most of it is imports.
SECONDS = 300.0
#: Variables that make a process part of somebody's distributed run.
_RUN = re.compile(
    r"(?:RANK|WORLD_SIZE|LOCAL_\w+|GROUP_\w+|ROLE_\w+|MASTER_\w+|TORCHELASTIC_\w+|ACCELERATE_\w+|FSDP_\w+)\Z"
)
#: On the processor, without the network, and in one thread: a step of noise needs no more.
_QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}


def answers_of(module: str, seconds: float = SECONDS) -> dict[str, Any] | str:
    """What ``python -m module answers.json`` writes into that file, an object; or why there is none.

    The process has this one's modules, a folder of its own, no GPU and no part in a distributed run.
    """
    with tempfile.TemporaryDirectory(prefix="deepgym-probe-") as folder:
        answers = Path(folder, "answers.json")
        said = Path(folder, "said")
        with said.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, str(answers)],
                cwd=folder,
                env=_environ(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                return f"their process wasn't done after {seconds:g} s"
            finally:
                process.kill()
                process.wait()
        if status == 0 and answers.is_file():
            found: dict[str, Any] = json.loads(answers.read_text(encoding="utf-8"))
            return found
        lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"their process ended with {status}: {lines[-1][:300] if lines else 'it said nothing'}"


def _environ() -> dict[str, str]:
    """This process's modules for the other one, and no part in a distributed run."""
    kept = {name: value for name, value in os.environ.items() if not _RUN.match(name)}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return {**kept, **_QUIET, "PYTHONPATH": path}
