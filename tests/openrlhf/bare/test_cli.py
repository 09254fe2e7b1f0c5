"""``deepgym openrlhf``: the endpoint as a process, told to stop in each way, and refusals."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import deepgym_openrlhf
from deepgym.cli import main
from deepgym.cli.outcome import UsageError
from deepgym.client import AsyncDeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import load_environment
from deepgym.exceptions import NoVerdictError, UnknownNameError
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym_openrlhf import serving
from deepgym_openrlhf.asking import Answer, Asked, body

TWO_SUM = load_environment("two_sum")
RIGHT = TWO_SUM.reference or ""
COMMAND = [sys.executable, "-c", "from deepgym.cli import main; main()", "openrlhf"]
#: Longer than a test waits for anything, and within the limits of the environment's run.
SLOW = "import time\ntime.sleep({})\n"


class Served:
    """A running ``deepgym openrlhf serve``."""

    def __init__(self, process: subprocess.Popen[str], line: str) -> None:
        self.process, self.line = process, line
        self.url = re.findall(r"http://\S+", line)[0]
        self.asked = Asked(self.url)

    def hold(self, pool: ThreadPoolExecutor, code: str) -> Future[Answer]:
        """A request that is being graded when this returns."""
        held = pool.submit(self.asked.post, body(("p", f"```python\n{code}\n```", None)))
        while "deepgym_open_requests 1\n" not in self.asked.get("/metrics").text:
            assert not held.done()
        return held

    def stopped(self) -> tuple[int, str]:
        """Its status and what it said, once it has ended."""
        _, said = self.process.communicate(timeout=120)
        return self.process.returncode, said


@contextmanager
def served(*arguments: str, **variables: str) -> Iterator[Served]:
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate(timeout=60))
        yield Served(process, line)
    finally:
        process.kill()
        process.communicate()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(["openrlhf", *arguments])
    said = capsys.readouterr()
    return int(exit_info.value.code or 0), said.out, said.err


@pytest.mark.local_sandbox
def test_a_served_endpoint_passes_its_own_check_and_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with served("two_sum", "--infra-failure-score", "-0.5") as endpoint:
        assert endpoint.line.startswith("--re")
        assert "deepgym:" not in endpoint.line
        status, said, _ = run(capsys, "check", endpoint.url, "--env", "two_sum")
        assert status == 0, said
        assert "it got the reward of the run that had begun" in said
        assert {line.split()[0] for line in said.splitlines()} == {"ok"}
        status, said, _ = run(capsys, "check", endpoint.url, "--env", "two_sum", "--json")
        assert {row["status"] for row in json.loads(said)} == {"ok"}
        endpoint.process.send_signal(signal.SIGTERM)
        status, said = endpoint.stopped()
    assert status == 0
    assert "two_sum: reference 1, empty answer 0" in said
    assert re.search(r"stopped; \d+ samples answered, 0 of them without a verdict", said)
    assert "Traceback" not in said


@pytest.mark.local_sandbox
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_what_is_held_at_the_signal_is_answered_with_the_failure_score(sent: signal.Signals) -> None:
    with (
        served("two_sum", "--infra-failure-score", "-0.5", "--grace", "0") as endpoint,
        ThreadPoolExecutor() as pool,
    ):
        held = endpoint.hold(pool, SLOW.format(3) + RIGHT)
        endpoint.process.send_signal(sent)
        answer = held.result(60)
        status, said = endpoint.stopped()
    assert answer.status == 200
    assert answer.data["rewards"] == answer.data["scores"] == [-0.5]
    assert answer.data["extra_logs"]["no_verdict"] == [1.0]
    assert status == 0
    assert "stopped; 1 samples answered, 1 of them without a verdict" in said


@pytest.mark.local_sandbox
def test_what_ends_within_the_grace_keeps_its_verdict() -> None:
    with (
        served("two_sum", "--infra-failure-score", "-0.5", "--grace", "60") as endpoint,
        ThreadPoolExecutor() as pool,
    ):
        held = endpoint.hold(pool, SLOW.format(1) + RIGHT)
        endpoint.process.send_signal(signal.SIGTERM)
        assert held.result(60).data["rewards"] == [1.0]
        assert endpoint.stopped()[0] == 0


@pytest.mark.local_sandbox
def test_the_second_signal_ends_the_grace() -> None:
    with (
        served("two_sum", "--infra-failure-score", "-0.5", "--grace", "600") as endpoint,
        ThreadPoolExecutor() as pool,
    ):
        held = endpoint.hold(pool, SLOW.format(3) + RIGHT)
        endpoint.process.send_signal(signal.SIGINT)
        # The first has been handled once nobody is let in any more.
        while endpoint.asked.get("/health").status:
            assert not held.done()
        endpoint.process.send_signal(signal.SIGINT)
        assert held.result(60).data["rewards"] == [-0.5]
        assert endpoint.stopped()[0] == 0


def test_the_third_signal_ends_connections_without_an_answer() -> None:
    stops: list[bool] = []
    grading = SimpleNamespace(stop=lambda: stops.append(True))
    app = SimpleNamespace(state=SimpleNamespace(endpoint=SimpleNamespace(grading=grading)))

    async def told() -> list[tuple[bool, int]]:
        server = serving.Server(app, grace=600)
        server._loop = asyncio.get_running_loop()
        seen = []
        for _ in range(3):
            server.handle_exit(signal.SIGINT, None)
            await asyncio.sleep(0)
            seen.append((server.force_exit, len(stops)))
        return seen

    assert asyncio.run(told()) == [(False, 0), (False, 1), (True, 2)]


@pytest.mark.local_sandbox
def test_with_a_token_the_printed_address_holds_it_and_is_all_that_is_needed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret,/@:?\n")
    with served("two_sum", "--infra-failure-score", "0", "--token-file", str(token)) as endpoint:
        assert "//deepgym:s3cret%2C%2F%40%3A%3F@127.0.0.1:" in endpoint.line
        assert run(capsys, "check", endpoint.url, "--env", "two_sum")[0] == 0
        bare = re.sub("//.*@", "//", endpoint.url)
        status, said, _ = run(capsys, "check", bare)
        assert (status, "HTTP 401" in said) == (1, True)
        assert run(capsys, "check", bare, "--token-file", str(token), "--env", "two_sum")[0] == 0
        endpoint.process.send_signal(signal.SIGTERM)
        said = endpoint.stopped()[1]
    assert "s3cret" not in said, "what is said goes into logs"


@pytest.mark.local_sandbox
def test_a_token_in_the_environment_counts_and_drop_group_says_which_flags_it_needs() -> None:
    with served("two_sum", "--infra-failure-score", "drop_group", DEEPGYM_OPENRLHF_TOKEN="abc") as endpoint:
        assert "//deepgym:abc@127.0.0.1:" in endpoint.line
        assert endpoint.process.stdout is not None
        endpoint.process.send_signal(signal.SIGTERM)
        following = endpoint.process.stdout.read()
        assert endpoint.stopped()[0] == 0
    assert "dynamic_filtering" in following


@pytest.mark.local_sandbox
def test_without_an_environment_a_label_names_a_built_in_one() -> None:
    with served("--infra-failure-score", "0") as endpoint:
        data = endpoint.asked.post(body(("p", RIGHT, "two_sum"), ("p", RIGHT, {"env": "to_roman"}))).data
        assert data["rewards"] == [1.0, 0.0]
        assert data["extra_logs"]["no_verdict"] == [0.0, 0.0]


TOO_LONG = """
name = "slow"
task = "t"
[verify]
kind = "cases"
function = "f"
cases = [{ args = [1], expected = 1 }]
[limits]
wall = 500
"""

REFUSED: dict[str, tuple[list[str], str]] = {
    "beyond this machine": (["--host", "0.0.0.0"], "so it needs a token"),
    "an address of the network": (["--host", "192.0.2.1"], "so it needs a token"),
    "no number": (["--infra-failure-score", "nan"], "a finite number, or one of 'group_mean'"),
    "no word": (["--infra-failure-score", "mean"], "a finite number, or one of 'group_mean'"),
    "no environment": (["two_sam"], "did you mean 'two_sum'"),
    "no file": (["none.jsonl"], "none.jsonl"),
    "limits that do not fit": (["slow"], "Lower limits.wall"),
    "one environment twice": (["two_sum"], "a name of its own"),
    "no token in the file": (["--token-file", "empty"], "empty holds no token"),
    "no token file": (["--token-file", "nowhere"], "the token can't be read"),
    "a token with a space": (["--token-file", "spaced"], "printable ASCII"),
    "no provider": (["--mode", "docker"], "docker"),
    "walls for another provider": (["--mode", "docker", "--isolation", "landlock"], "drop one"),
    "no such walls": (["--isolation", "thick"], "thick"),
}


@pytest.mark.parametrize(("arguments", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_served_is_refused_before_anything_is_opened(
    arguments: list[str],
    why: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DEEPGYM_OPENRLHF_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow/environment.toml").write_text(TOO_LONG)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "spaced").write_text("a b\n")
    arguments = [str(tmp_path / "slow") if word == "slow" else word for word in arguments]
    score = [] if "--infra-failure-score" in arguments else ["--infra-failure-score", "0"]
    status, out, said = run(capsys, "serve", "two_sum", *arguments, *score)
    assert (status, out) == (2, ""), said
    assert why in said


def test_the_failure_score_has_to_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, said = run(capsys, "serve", "two_sum")
    assert (status, "--infra-failure-score" in said) == (2, True)


def test_a_token_in_the_environment_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPGYM_OPENRLHF_TOKEN", "")
    status, _, said = run(capsys, "serve", "two_sum", "--infra-failure-score", "0")
    assert (status, "DEEPGYM_OPENRLHF_TOKEN holds no token" in said) == (2, True)


def test_a_port_that_is_taken_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        status, _, said = run(capsys, "serve", "two_sum", "--infra-failure-score", "0", "--port", port)
    assert (status, f"can't listen at 127.0.0.1 port {port}" in said) == (2, True)


@pytest.mark.parametrize(
    ("command", "file", "flag"),
    [
        ("agent-path", "agent.py", "agent_func_path"),
        ("reward-path", "reward_file.py", "url"),
    ],
)
def test_a_path_stands_alone_on_stdout_and_the_flag_on_stderr(
    command: str, file: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, said = run(capsys, command)
    path = Path(deepgym_openrlhf.__file__).with_name(file)
    assert (status, out) == (0, f"{path}\n")
    assert path.is_file()
    assert f"{flag} {path}" in said


def test_a_check_of_nothing_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/get_reward"
        status, said, _ = run(capsys, "check", url)
    assert status == 1
    assert said.startswith("fail  one query: ConnectionRefusedError")
    assert "remedy: start it" in said


def test_a_judge_that_does_not_work_is_found_before_anybody_is_let_in() -> None:
    broken = FaultyProvider(FakeProvider(), Fault("provider", Phase.QUEUED))
    with pytest.raises(NoVerdictError, match="two_sum: the judge doesn't work here: provider_error"):
        asyncio.run(serving.tried(AsyncDeepGym(provider=broken), [TWO_SUM]))


def test_an_environment_whose_reference_earns_nothing_is_found_before_anybody_is_let_in() -> None:
    with pytest.raises(UsageError, match="two_sum: its reference scores 0 and an empty answer 0"):
        asyncio.run(serving.tried(AsyncDeepGym(provider=FakeProvider()), [TWO_SUM]))


def test_of_an_environment_without_a_reference_the_empty_answer_is_tried() -> None:
    bare: Any = TWO_SUM.model_copy(update={"reference": None})
    said = asyncio.run(serving.tried(AsyncDeepGym(provider=FakeProvider()), [bare]))
    assert said == "two_sum: an empty answer 0"


def test_names_may_be_environments_folders_suites_and_files(tmp_path: Path) -> None:
    (tmp_path / "environment.toml").write_text(TOO_LONG)
    rows = [
        {"task_id": 1, "text": "Add.", "code": "def f(a):\n    return a", "test_list": ["assert f(1) == 1"]},
        {"task_id": 2, "text": "Nothing.", "code": "x = 1", "test_list": ["assert 1 == 1"]},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found, remarks = serving.environments_of(["two_sum", str(tmp_path), "easy", str(tmp_path / "rows.jsonl")])
    names = [env.name for env in found]
    assert names[:2] == ["two_sum", "slow"]
    assert len(names) > 4
    (remark,) = remarks
    assert remark.startswith(f"1 rows of {tmp_path}/rows.jsonl are no tasks: ")
    with pytest.raises(UnknownNameError):
        serving.environments_of(["hardest"])


@pytest.mark.parametrize(
    ("host", "shown"), [("0.0.0.0", socket.gethostname()), ("::1", "[::1]"), ("127.0.0.1", "127.0.0.1")]
)
def test_an_address_is_one_that_the_trainer_can_use(host: str, shown: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert serving.address(listener, host, None) == f"http://{shown}:{port}/get_reward"


def test_a_process_is_allowed_as_many_connections_as_the_system_has() -> None:
    program = (
        "import resource as r\n"
        "hard = r.getrlimit(r.RLIMIT_NOFILE)[1]\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (64, hard))\n"
        "from deepgym_openrlhf.serving import allow_open_files\n"
        "allow_open_files()\n"
        "assert r.getrlimit(r.RLIMIT_NOFILE) == (hard, hard)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
