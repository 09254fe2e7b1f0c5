"""Trajectories on disk: one JSON line for each finished episode."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deepgym.session.records import Trajectory

__all__ = ["Journal", "read_trajectories"]

_log = logging.getLogger(__name__)


class Journal:
    """Appends trajectories to a file, which several processes may do at a time.

    Each line is one write at the file's end. One that a crash cut is skipped when the file is read, and
    spoils no other. Keeps no file open: pickles and survives a fork.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, trajectory: Trajectory) -> None:
        """Add one line.

        Raises:
            OSError: the file can't be opened or written, the disk being full for one. Then it is as before.
        """
        line = trajectory.model_dump_json().encode() + b"\n"
        with _locked(self.path) as file:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(file, line)
            if written < len(line):
                os.ftruncate(file, size)
                raise OSError(f"only {written} of {len(line)} bytes could be written to {self.path}")


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    try:
        try:
            import fcntl
        except ImportError:  # pragma: no cover - elsewhere than on Unix one process is all that may write
            pass
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def read_trajectories(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """The trajectories of a journal, in the order in which they were written.

    A line that a crash cut is skipped, with a warning in the log.

    Raises:
        OSError: the file can't be read.
        ValueError: a line is whole, but no trajectory; the message has its number.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield Trajectory.model_validate_json(line)
            except ValueError as error:
                if not _is_cut(line):
                    raise ValueError(f"{os.fspath(path)} line {number} is no trajectory: {error}") from error
                _log.warning("%s line %d was cut by a crash; skipped", os.fspath(path), number)


def _is_cut(line: bytes) -> bool:
    """Whether it is the beginning of a line of ours: of a JSON object only the whole is valid JSON."""
    import json

    if not line.startswith((b"{", b"\0")):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False
