"""What ``check`` starts in a process of its own: the installed OpenRLHF's client against what is here.

``python -m deepgym_openrlhf.probe answer.json`` writes one JSON object: for each question its answer, or
``{"error": ...}``. Endpoint and client are in one process, on loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .asking import Asked, request
from .check import LOST
from .client import ask, executor_of, load
from .router import create_app
from .serving import Server, address, bound

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym

__all__ = ["ENV", "main", "served"]

ENV = "two_sum"
_PROMPT = "<|im_start|>user\nWrite two_sum.<|im_end|>\n<|im_start|>assistant\n"


def main(path: str) -> None:
    """Answer all questions into the file ``path``. A question that raises has its error as its answer."""
    questions: dict[str, Callable[[], Any]] = {
        "client": client,
        "empty": empty,
        "rewards": rewards,
        "outage": outage,
        "several": several,
        "agent_file": agent_file,
        "python_file": python_file,
    }
    Path(path).write_text(json.dumps({name: _answered(ask) for name, ask in questions.items()}))


def _answered(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - whatever OpenRLHF raises here is what was asked
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def client() -> str:
    """The module of OpenRLHF's client."""
    return str(load().SingleTurnAgentExecutor.__module__)


def empty() -> Any:
    """The answer to a request without samples."""
    with served() as url:
        return Asked(url).post(request([], [], [])).data


def rewards() -> list[Any]:
    """What the client makes of a reference and of an empty answer."""
    with served() as url:
        return _asked(executor_of(url), [_right(), ""])


def outage() -> list[Any]:
    """What it makes of a run that the provider fails, twice."""
    from deepgym.client import AsyncDeepGym
    from deepgym.contract.evidence import Phase
    from deepgym.testing import FakeProvider, Fault, FaultyProvider

    broken = FaultyProvider(FakeProvider(), Fault("provider", Phase.QUEUED))
    with served(AsyncDeepGym(provider=broken)) as url:
        return _asked(executor_of(url), [_right()])


def several() -> list[Any]:
    """What the client makes of two addresses, of which older versions ask one for nothing."""
    with served() as url, served() as other:
        return _asked(executor_of(url, other), [_right(), ""])


def agent_file() -> list[Any]:
    """What the agent file makes of a reference and of an empty answer."""
    load()
    spec = spec_from_file_location("agent_module", Path(__file__).with_name("agent.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    os.environ["DEEPGYM_OPENRLHF_ENV"] = ENV
    return _asked(module.AgentExecutor(), [_right(), ""])


def python_file() -> list[Any]:
    """What the client makes of the Python file's answers."""
    os.environ.update(DEEPGYM_OPENRLHF_ENV=ENV, DEEPGYM_OPENRLHF_FAILURE=str(LOST))
    return _asked(executor_of(str(Path(__file__).with_name("reward_file.py"))), [_right(), ""])


@contextmanager
def served(dg: AsyncDeepGym | None = None) -> Iterator[str]:
    """The address of an endpoint for ``ENV``, in a thread of its own."""
    app = create_app(ENV, dg, infra_failure_score=LOST)
    listener = bound("127.0.0.1", 0)
    ready = threading.Event()
    server = Server(app, started=ready.set)
    thread = threading.Thread(target=server.run, args=([listener],), name="deepgym-endpoint", daemon=True)
    thread.start()
    try:
        if not ready.wait(60.0):
            raise RuntimeError("the endpoint didn't start")
        yield address(listener, "127.0.0.1", None)
    finally:
        server.should_exit = True
        thread.join(60.0)


def _asked(executor: Any, responses: Sequence[str]) -> list[Any]:
    async def all_of_them() -> list[Any]:
        answers = [await ask(executor, _PROMPT, response, ENV) for response in responses]
        return [
            {name: _plain(answer[name]) for name in ("reward", "scores", "extra_logs")} for answer in answers
        ]

    return asyncio.run(all_of_them())


def _plain(value: Any) -> Any:
    """A single number as the list of one that an endpoint sends."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [value] if isinstance(value, float) else value


def _right() -> str:
    from deepgym.environments import load_environment

    return f"```python\n{load_environment(ENV).reference}\n```"


if __name__ == "__main__":
    main(sys.argv[1])
