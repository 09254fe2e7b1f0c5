from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from deepgym.environments import ToolCall
from deepgym.models import RunResult
from deepgym.session.journal import Journal, read_trajectories
from deepgym.session.records import Observation, Trajectory, Turn


def trajectory(number: int = 0, size: int = 10) -> Trajectory:
    call = ToolCall(name="bash", arguments={"command": "ls \u2028 \n \U0001f600"})
    seen = Observation(text="x" * size, exit_code=0, seconds=0.25)
    turn = Turn(calls=(call,), observations=(seen,), message={"role": "assistant", "content": None})
    return Trajectory(
        env_name="folder",
        env_digest="d",
        task="Do it.",
        seed=number,
        turns=(turn,),
        ended="submitted",
        result=RunResult(score=0.5, exit_code=1, reward_components={"a": 0.5}, details={"x": [1, None]}),
        metadata={"number": number},
    )


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "episodes.jsonl")
    written = [trajectory(number) for number in range(3)]
    for one in written:
        journal.append(one)
    assert list(read_trajectories(journal.path)) == written
    assert journal.path.read_bytes().count(b"\n") == 3


def test_a_journal_goes_on_where_another_stopped(tmp_path: Path) -> None:
    path = str(tmp_path / "episodes.jsonl")
    Journal(path).append(trajectory(1))
    pickle.loads(pickle.dumps(Journal(path))).append(trajectory(2))
    assert [one.seed for one in read_trajectories(path)] == [1, 2]


@pytest.mark.parametrize("kept", [1, 20, -2, -1])
def test_a_cut_line_is_skipped_with_a_warning_and_spoils_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: int
) -> None:
    journal = Journal(tmp_path / "episodes.jsonl")
    journal.append(trajectory(1))
    line = trajectory(2).model_dump_json().encode() + b"\n"
    with journal.path.open("ab") as file:
        file.write(line[:kept])
    with caplog.at_level(logging.WARNING):
        before = [one.seed for one in read_trajectories(journal.path)]
    journal.append(trajectory(3))
    with caplog.at_level(logging.WARNING):
        after = [one.seed for one in read_trajectories(journal.path)]
    if kept == -1:  # only the line's end is missing
        assert (before, after) == ([1, 2], [1, 2, 3])
        assert caplog.records == []
    else:
        assert (before, after) == ([1], [1, 3])
        assert ["line 2 was cut" in record.getMessage() for record in caplog.records] == [True, True]


def test_zeros_that_a_power_cut_left_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(tmp_path / "episodes.jsonl")
    journal.path.write_bytes(b"\0" * 100)
    journal.append(trajectory(1))
    with caplog.at_level(logging.WARNING):
        assert [one.seed for one in read_trajectories(journal.path)] == [1]


def test_a_file_that_is_no_journal_is_an_error_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    for text in ('{"prompt": "x"}\n', "[]\n", "some text\n"):
        path.write_text("\n" + text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"other\.jsonl line 2 is no trajectory"):
            list(read_trajectories(path))


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        list(read_trajectories("missing.jsonl"))


def test_a_write_that_the_disk_cuts_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "episodes.jsonl")
    journal.append(trajectory(1))
    before = journal.path.read_bytes()
    write = os.write
    monkeypatch.setattr("deepgym.session.journal.os.write", lambda file, data: write(file, data[:50]))
    with pytest.raises(OSError, match="only 50 of"):
        journal.append(trajectory(2))
    monkeypatch.undo()
    assert journal.path.read_bytes() == before


def test_a_full_disk_is_an_error() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with pytest.raises(OSError, match="No space left"):
        Journal("/dev/full").append(trajectory())


APPENDER = """
import sys
from deepgym.session.journal import Journal
from deepgym.session.records import Trajectory

journal = Journal(sys.argv[1])
one = Trajectory(env_name="folder", env_digest="d", task="x" * 200_000)
for number in range(20):
    journal.append(one.model_copy(update={"seed": int(sys.argv[2]) + number}))
"""


def test_several_processes_append_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    workers = [
        subprocess.Popen([sys.executable, "-c", APPENDER, str(path), str(first)]) for first in (0, 20, 40)
    ]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert sorted(one.seed for one in read_trajectories(path)) == list(range(60))


def test_a_trajectory_survives_its_own_json() -> None:
    one = trajectory()
    assert Trajectory.model_validate_json(one.model_dump_json()) == one
    assert Trajectory.model_validate(json.loads(one.model_dump_json())) == one
    assert one.result is not None
    assert json.loads(one.model_dump_json())["result"]["has_verdict"] is True
