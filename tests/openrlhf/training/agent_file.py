"""The package's agent file with the tests' task, which writes down what it gives the trainer.

The trainer loads it by its path and gives it no arguments, so the place to write to stands in a variable.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import openrlhf_task as task

from deepgym import AsyncDeepGym
from deepgym_openrlhf import agent


class AgentExecutor(agent.AgentExecutor):
    def __init__(self) -> None:
        super().__init__(task.SHARE, AsyncDeepGym(provider=task.outages(task.SEED)))
        self._notes = Path(os.environ["DEEPGYM_TRAINING_NOTES"])

    async def execute(self, *args: Any, **options: Any) -> dict[str, Any]:
        output = await super().execute(*args, **options)
        begin = output["action_ranges"][0][0]
        tokens = output["observation_tokens"][begin:]
        note = {
            "prompt": output["prompt"],
            "text": options["hf_tokenizer"].decode(tokens),
            "reward": output["reward"],
            "score": output["scores"],
            "logs": output["extra_logs"],
            "tokens": (sum(end - begin for begin, end in output["action_ranges"]), len(tokens)),
        }
        with self._notes.open("a", encoding="utf-8") as notes:
            notes.write(json.dumps(note) + "\n")
        return output
