"""Real lm-eval in this process and in others, on answers that a loopback server gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

from .server import Loopback

__all__ = ["VERSION", "Run", "arguments", "command", "evaluate", "manager", "names", "strict", "written"]

#: Of lm-eval.
VERSION = tuple(int(part) for part in version("lm_eval").split(".")[:3])
_SERVED = {"model": "stub", "tokenizer_backend": None, "tokenized_requests": False, "max_retries": 1}


def strict(text: str) -> Any:
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} isn't JSON")

    return json.loads(text, parse_constant=refuse)


@dataclass(frozen=True)
class Run:
    """What ``evaluate`` or the command line came back with."""

    everything: dict[str, Any]

    def values(self, task: str) -> dict[str, Any]:
        """The task's or group's metrics, by name: ``deepgym_score``, ``deepgym_score_stderr``, …"""
        found = self.everything["results"][task]
        return {key.partition(",")[0]: value for key, value in found.items() if "," in key}

    def samples(self, task: str) -> list[dict[str, Any]]:
        """The sample log of the task, in the order of its documents."""
        return sorted(self.everything["samples"][task], key=lambda sample: sample["doc_id"])

    def judged(self, task: str) -> dict[str, Any]:
        """How many runs were judged and what failed the others, as the results' configuration says it.

        Before 0.4.12 lm-eval reads configurations before it grades; there the samples alone say it.
        """
        if VERSION >= (0, 4, 12):
            found: dict[str, Any] = self.everything["configs"][task]["metadata"]["deepgym"]
            return found
        samples = self.everything["samples"][task]
        none: Counter[str] = Counter()
        for sample in samples:
            none.update(sample["deepgym_no_verdict"])
        judged = sum(sample["deepgym_judged"] for sample in samples)
        return {"runs": judged + none.total(), "judged": judged, "no_verdict": dict(none)}


@cache
def manager(*include: str) -> Any:
    """A task manager of DeepGym's tasks alone; lm-eval's own ten thousand take it seconds to find."""
    from deepgym_lmeval import task_manager

    return task_manager(list(include), include_defaults=False)


def evaluate(server: Loopback, *tasks: Any, chat: bool = False, **options: Any) -> Run:
    """``lm_eval.simple_evaluate`` with the server's model."""
    from lm_eval import simple_evaluate

    # It lists what is installed for the results, by pip, which takes longer than everything else.
    with patch("lm_eval.evaluator.add_env_info"):
        found = simple_evaluate(
            model=f"local-{'chat-' if chat else ''}completions",
            model_args={"base_url": server.url(chat), **_SERVED},
            tasks=list(tasks),
            apply_chat_template=chat,
            **{"task_manager": manager(), **options},
        )
    assert found is not None
    return Run(found)


def arguments(server: Loopback, tasks: str, *options: str, chat: bool = False) -> list[str]:
    """What stands behind ``lm_eval`` or ``deepgym lm-eval``."""
    model = ",".join(f"{name}={value}" for name, value in {"base_url": server.url(chat), **_SERVED}.items())
    kind = f"local-{'chat-' if chat else ''}completions"
    return [
        *("run", "--tasks", tasks, "--model", kind, "--model_args", model),
        *(["--apply_chat_template"] if chat else []),
        *options,
    ]


def command(
    *words: str, program: Sequence[str] = ("-m", "deepgym_lmeval"), python: str = sys.executable, **env: str
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, and what it printed. Nothing of it is checked."""
    return subprocess.run(
        [python, *program, *words],
        env={**os.environ, "LMEVAL_LOG_LEVEL": "INFO", **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def written(folder: Path) -> Run:
    """The files that ``--output_path FOLDER --log_samples`` left, each line of them strict JSON."""
    (results,) = folder.rglob("results_*.json")
    found = strict(results.read_text(encoding="utf-8"))
    found["samples"] = {}
    for path in folder.rglob("samples_*.jsonl"):
        task = path.name.removeprefix("samples_").rsplit("_", 1)[0]
        lines = path.read_text(encoding="utf-8").splitlines()
        found["samples"][task] = [strict(line) for line in lines]
    return Run(found)


def names(run: Run, task: str) -> list[str]:
    """The environment of each sample."""
    return [sample["doc"]["task_id"] for sample in run.samples(task)]
