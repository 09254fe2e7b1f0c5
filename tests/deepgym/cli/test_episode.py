from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from deepgym.environments import ToolCall, load_multi_turn_environment
from deepgym.exceptions import ProviderError
from deepgym.models import RunResult
from deepgym.session.agents import ScriptedAgent
from deepgym.session.chat import ChatAgent
from deepgym.session.chat_server import ChatRequestError
from deepgym.session.journal import read_trajectories
from deepgym.session.records import Observation, Trajectory, Turn

MANIFEST = """
kind = "multi_turn"
task = "Make the file done."
reference = "reference.sh"
[verify]
program = "verify.py"
"""
PASSED = RunResult(score=1.0, passed=True)
FAILED = RunResult(score=0.25, error_type=None)
BROKE = RunResult(score=0.0, error_type="policy_sandbox_failure", error="it was killed")
OUTAGE = RunResult(score=0.0, error_type="network_error", error="NetworkError: can't reach x:1")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "environment.toml").write_text(MANIFEST, encoding="utf-8")
    (path / "verify.py").write_text("def verify(work):\n    return work.exists('done')\n", encoding="utf-8")
    (path / "reference.sh").write_text("touch done\n", encoding="utf-8")
    return str(path)


def played(env: Any, result: RunResult, metadata: Any, text: str = "fine\n") -> Trajectory:
    call = ToolCall(name="bash", arguments={"command": "ls"})
    turn = Turn(calls=(call,), observations=(Observation(text=text),), message={"content": "Looking."})
    return Trajectory(
        env_name=env.name,
        env_digest=env.digest,
        task=env.task,
        turns=(turn,) if result.has_verdict else (),
        ended="submitted" if result.has_verdict else None,
        session_seconds=1.25,
        result=result,
        metadata=dict(metadata),
    )


class StubClient:
    """Hands in the results it was told to."""

    made: ClassVar[list[StubClient]] = []
    results: ClassVar[list[RunResult]] = [PASSED]
    text: ClassVar[str] = "fine\n"
    raises: ClassVar[BaseException | None] = None

    def __init__(self, mode: str = "local", **options: Any) -> None:
        self.mode, self.options, self.closed = mode, options, False
        self.calls: list[SimpleNamespace] = []
        type(self).made.append(self)

    def __enter__(self) -> StubClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def run_episodes(
        self, env: Any, agent: Any, *, on_episode: Callable[[int, Trajectory], None], **options: Any
    ) -> list[Trajectory]:
        self.calls.append(SimpleNamespace(env=env, agent=agent, **options))
        trajectories = [played(env, one, options["metadata"], self.text) for one in self.results]
        for index, trajectory in reversed(list(enumerate(trajectories))):
            on_episode(index, trajectory)
        if self.raises is not None:
            raise self.raises
        return trajectories


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> type[StubClient]:
    for name, value in (("made", []), ("results", [PASSED]), ("raises", None), ("text", "fine\n")):
        monkeypatch.setattr(StubClient, name, value)
    monkeypatch.setitem(sys.modules, "deepgym.client", SimpleNamespace(DeepGym=StubClient))  # type: ignore[arg-type]
    return StubClient


MODEL = ("--base-url", "http://localhost:1/v1", "--model", "m")


def test_a_single_episode_is_shown_step_by_step(stub: Any, cli: Any, folder: str) -> None:
    ran = cli("episode", folder, "--reference")
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[:5] == ["Make the file done.", "", "Looking.", "> bash: ls", "fine"]
    assert " ".join(lines[-3].split()) == "1 submitted 1 step 1.2 s PASSED score 1.00"
    assert lines[-2] == "Pass Rate: 100.00% (judged 100.00%, 0.00% no verdict)"
    assert "1 of 1 graded" in ran.err
    assert stub.made[0].closed


def test_several_episodes_have_a_line_each_and_conservative_totals(stub: Any, cli: Any, folder: str) -> None:
    stub.results = [PASSED, OUTAGE, FAILED, BROKE]
    ran = cli("episode", folder, *MODEL, "-n", "4")
    assert [" ".join(line.split()) for line in ran.out.splitlines()][:4] == [
        "1 submitted 1 step 1.2 s PASSED score 1.00",
        "2 - 0 steps 1.2 s ERROR (network_error): NetworkError: can't reach x:1",
        "3 submitted 1 step 1.2 s FAILED score 0.25",
        "4 submitted 1 step 1.2 s FAILED score 0.00 policy_sandbox_failure: it was killed",
    ]
    assert "Pass Rate: 25.00% (judged 33.33%, 25.00% no verdict)" in ran.out
    assert ran.code == 3


@pytest.mark.parametrize(
    ("results", "code"), [([PASSED, PASSED], 0), ([PASSED, FAILED], 1), ([FAILED, OUTAGE], 3)]
)
def test_the_exit_status_is_the_worst_of_all(
    stub: Any, cli: Any, folder: str, results: list[RunResult], code: int
) -> None:
    stub.results = results
    assert cli("episode", folder, *MODEL, "-n", "2").code == code


def test_options_reach_the_client_and_the_model(stub: Any, cli: Any, folder: str) -> None:
    stub.results = [PASSED] * 3
    cli("episode", folder, *MODEL, "-n", "3", "--seed", "5", "-j", "2", "--mode", "other", "--tools", "text")
    (call,) = stub.made[0].calls
    assert (stub.made[0].mode, call.n, call.seed, call.max_parallel) == ("other", 3, 5, 2)
    assert (call.env.name, call.metadata) == ("folder", {"agent": "m"})
    assert isinstance(call.agent, ChatAgent)
    assert call.agent.tools == "text"


def test_the_reference_is_played_by_a_script(stub: Any, cli: Any, folder: str) -> None:
    cli("episode", folder, "--reference")
    (call,) = stub.made[0].calls
    assert call.agent == ScriptedAgent.reference(load_multi_turn_environment(folder))
    assert call.metadata == {"agent": "reference"}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "give --base-url and --model, or --reference"),
        (["--model", "m"], "give --base-url and --model"),
        (["--reference", "--model", "m"], "drop --base-url and --model"),
        (["--base-url", "nowhere", "--model", "m"], "must be like http://localhost:8000/v1"),
        ([*MODEL, "--tools", "xml"], "'auto', 'native' or 'text'"),
        ([*MODEL, "--api-key", "a\nb"], "api_key"),
    ],
)
def test_what_does_not_fit_together_is_a_usage_error(
    stub: Any, cli: Any, folder: str, args: list[str], told: str
) -> None:
    ran = cli("episode", folder, *args)
    assert (ran.code, ran.out, stub.made) == (2, "", [])
    assert told in ran.err


def test_an_environment_without_a_reference_has_none_to_play(stub: Any, cli: Any, folder: str) -> None:
    path = Path(folder, "environment.toml")
    path.write_text(MANIFEST.replace('reference = "reference.sh"', ""), encoding="utf-8")
    ran = cli("episode", folder, "--reference")
    assert (ran.code, stub.made) == (2, [])
    assert "folder has no reference" in ran.err


def test_a_task_that_is_answered_at_once_is_no_episode(stub: Any, cli: Any) -> None:
    ran = cli("episode", "two_sum", "--reference")
    assert ran.code == 2
    assert "answered at once" in ran.err


def test_trajectories_are_appended_to_the_file_as_they_end(
    stub: Any, cli: Any, folder: str, tmp_path: Path
) -> None:
    out = tmp_path / "episodes.jsonl"
    stub.results = [PASSED, FAILED]
    for _ in range(2):
        cli("episode", folder, *MODEL, "-n", "2", "--out", str(out))
    found = list(read_trajectories(out))
    assert [one.result and one.result.score for one in found] == [0.25, 1.0, 0.25, 1.0]


def test_a_file_that_cannot_be_written_is_told_before_anything_runs(
    stub: Any, cli: Any, folder: str, tmp_path: Path
) -> None:
    ran = cli("episode", folder, *MODEL, "--out", str(tmp_path))
    assert ran.code == 2
    assert "can't write" in ran.err
    assert not stub.made or not stub.made[0].calls


def test_a_file_that_fills_the_disk_costs_no_result(
    stub: Any, cli: Any, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    ran = cli("episode", folder, *MODEL, "--out", "/dev/full")
    assert ran.code == 0
    assert "1 trajectories aren't in /dev/full: " in ran.err


def test_json_is_one_document_with_totals_and_trajectories(stub: Any, cli: Any, folder: str) -> None:
    stub.results = [PASSED, OUTAGE]
    ran = cli("episode", folder, *MODEL, "-n", "2", "--json")
    shown = json.loads(ran.out)
    assert ran.out.count("\n") == 1
    assert (shown["env_name"], shown["totals"]["no_verdict_count"]) == ("folder", 1)
    assert (shown["totals"]["pass_rate"], shown["totals"]["judged_pass_rate"]) == (0.5, 1.0)
    found = [Trajectory.model_validate(one) for one in shown["episodes"]]
    assert [one.result for one in found] == [PASSED, OUTAGE]


def test_what_an_agent_wrote_cannot_steer_the_terminal(stub: Any, cli: Any, folder: str) -> None:
    stub.text = "\x1b[2Jcleared\x07" + "line\n" * 100
    out = cli("episode", folder, "--reference").out
    assert "\\x1b[2Jcleared\\x07" in out
    assert "\x1b" not in out
    assert "[...]" in out
    assert out.count("line") < 20


def test_ctrl_c_shows_what_had_ended(stub: Any, cli: Any, folder: str) -> None:
    stub.results, stub.raises = [PASSED], KeyboardInterrupt()
    ran = cli("episode", folder, *MODEL, "-n", "3")
    assert ran.code == 130
    assert len(ran.out.splitlines()) == 3
    assert "Pass Rate: 33.33% (judged 100.00%, 66.67% no verdict)" in ran.out


@pytest.mark.parametrize(
    ("error", "code"), [(ChatRequestError("HTTP 404 from x: no such model"), 2), (ProviderError("down"), 3)]
)
def test_what_is_raised_is_said_without_a_traceback(
    stub: Any, cli: Any, folder: str, error: Exception, code: int
) -> None:
    stub.results, stub.raises = [], error
    ran = cli("episode", folder, *MODEL)
    assert ran.code == code
    assert f"error: {error}" in ran.err


# on the real client


class Player(BaseHTTPRequestHandler):
    """A chat server whose model knows the reference by heart."""

    calls: ClassVar[tuple[ToolCall, ...]] = ()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        done = sum(message["role"] == "assistant" for message in asked["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": f"Step {done + 1}."}
        if done < len(self.calls):
            call = self.calls[done]
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            message["tool_calls"] = [{"id": f"c{done}", "type": "function", "function": function}]
        body = json.dumps({"choices": [{"message": message}], "usage": {"total_tokens": 3}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    env = load_multi_turn_environment("log_analysis")
    assert env.reference is not None
    monkeypatch.setattr(Player, "calls", env.reference)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Player)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{http.server_address[1]}/v1"
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.mark.local_sandbox
def test_the_reference_is_played_and_passes(cli: Any) -> None:
    ran = cli("episode", "log_analysis", "--reference")
    assert ran.code == 0, ran.err
    assert "PASSED  score 1.00" in ran.out


@pytest.mark.local_sandbox
def test_a_model_on_a_server_plays_real_episodes(cli: Any, model: str, tmp_path: Path) -> None:
    out = tmp_path / "episodes.jsonl"
    ran = cli("episode", "log_analysis", "--base-url", model, "--model", "m", "-n", "2", "--out", str(out))
    assert ran.code == 0, ran.err
    found = list(read_trajectories(out))
    assert [one.result and (one.result.score, one.result.env_name) for one in found] == [
        (1.0, "log_analysis")
    ] * 2
    assert all(one.metadata["usage"]["total_tokens"] == 3 * len(one.turns) for one in found)


@pytest.mark.local_sandbox
def test_a_server_that_is_not_there_gives_no_verdict(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_wait(seconds: float) -> None:
        pass

    monkeypatch.setattr("deepgym.session.chat_server.pause", no_wait)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        ran = cli("episode", "log_analysis", "--base-url", url, "--model", "m")
    assert ran.code == 3
    assert "ERROR (network_error)" in ran.out
