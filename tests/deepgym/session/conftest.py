from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deepgym import DeepGym
from deepgym.client.session import Session
from deepgym.environments import Program
from deepgym.environments.multi_turn import EpisodeLimits, MultiTurnEnvironment
from deepgym.session.records import Observation

#: A verifier that passes whatever it sees.
LOOKS = "def verify(work):\n    work.files()\n    return True\n"


def _beside(path: str) -> Any:
    """A file of another folder of tests, as a module."""
    file = pathlib.Path(__file__).parent.parent / path
    spec = importlib.util.spec_from_file_location(f"beside_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", autouse=True)
def own_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Slots that no other process of this user takes part in: its batch mustn't hold these tests up."""
    folder = str(tmp_path_factory.mktemp("slots"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepgym.providers.local.slots._directory", lambda: folder)
        yield folder


@pytest.fixture(scope="session")
def dg(local_sandbox: None, own_slots: str) -> Iterator[DeepGym]:
    with DeepGym(slots=3) as client:
        yield client


def _environment(verify: str = LOOKS, /, **fields: Any) -> MultiTurnEnvironment:
    limits: dict[str, Any] = {"step": 20.0, "actions": 1000.0, "steps": 1000, "setup": 10.0, "verify": 20.0}
    # ``files`` is a limit, and a field of the environment too.
    given = [
        name
        for name, value in fields.items()
        if name in EpisodeLimits.model_fields and type(value) is not dict
    ]
    limits.update({name: fields.pop(name) for name in given})
    own = fields.pop("verify_files", {})
    return MultiTurnEnvironment(
        name="test",
        task="do it",
        verify=Program(source=verify, files=own),
        limits=EpisodeLimits(**limits),
        **fields,
    )


@pytest.fixture(scope="session")
def environment() -> Callable[..., MultiTurnEnvironment]:
    """``environment(verify, **fields)``: a multi-turn one; names of limits are limits, ``setup`` is the
    script's unless it is a number.
    """

    def make(verify: str = LOOKS, /, **fields: Any) -> MultiTurnEnvironment:
        script = fields.pop("setup", "")
        made = _environment(verify, **fields)
        return made.model_copy(update={"setup": script}) if script else made

    return make


class Player:
    """A session whose actions are written short."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.score = session.score

    def __call__(self, command: str) -> Observation:
        return self.session.step(command)

    def _tool(self, name: str, **arguments: str) -> Observation:
        return self.session.step({"name": name, "arguments": arguments})

    def python(self, code: str) -> Observation:
        return self._tool("python", code=code)

    def read(self, path: str) -> Observation:
        return self._tool("read_file", path=path)

    def write(self, path: str, content: str) -> Observation:
        return self._tool("write_file", path=path, content=content)


@pytest.fixture
def play(dg: DeepGym, environment: Callable[..., MultiTurnEnvironment]) -> Iterator[Callable[..., Player]]:
    """``play(verify, **fields)``: a fresh session of such an environment, reset."""
    opened: list[Session] = []

    def start(*arguments: Any, **fields: Any) -> Player:
        client, seed = fields.pop("client", dg), fields.pop("seed", None)
        session = client.session(environment(*arguments, **fields), seed=seed)
        opened.append(session)
        session.reset()
        return Player(session)

    yield start
    for session in opened:
        session.close()


@pytest.fixture
def agent(play: Callable[..., Player]) -> Player:
    """A fresh session."""
    return play()


@pytest.fixture(scope="session")
def players() -> type[Player]:
    """``players(session)`` writes a session's actions short."""
    return Player


_clients = _beside("client/conftest.py")

PREAMBLE = """
import gc, warnings
import anyio
warnings.simplefilter("ignore", DeprecationWarning)
from deepgym.environments.multi_turn import EpisodeLimits, MultiTurnEnvironment

def episode(verify="def verify(work):\\n    work.files()\\n    return True", **fields):
    limits = {"step": 20.0, "verify": 20.0}
    given = [n for n, v in fields.items() if n in EpisodeLimits.model_fields and not isinstance(v, (dict, str))]
    limits.update({name: fields.pop(name) for name in given})
    return MultiTurnEnvironment(
        name="t", task="t", verify=Program(source=verify), limits=EpisodeLimits(**limits), **fields
    )
"""


@pytest.fixture
def script(local_sandbox: None, tmp_path: pathlib.Path) -> Iterator[Callable[..., Any]]:
    """The one of ``tests/deepgym/client``; the process has ``episode`` besides."""
    started: list[Any] = []
    slots = tmp_path / "slots"
    slots.mkdir()

    def start(text: str, command: list[str] | None = None, **options: Any) -> Any:
        import sys
        import textwrap

        folder = options.pop("folder", tmp_path)
        text = PREAMBLE + textwrap.dedent(text)
        one = _clients.Script(
            folder, text, options.pop("slots", str(slots)), command or [sys.executable], **options
        )
        started.append(one)
        return one

    yield start
    for one in started:
        one.end()


@pytest.fixture(scope="session")
def beside() -> Callable[[str], Any]:
    """``beside(path)``: a file of another folder of tests, as a module."""
    return _beside
