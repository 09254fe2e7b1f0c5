"""Directories of runs without a file system of their own, whatever became of them."""

from __future__ import annotations

import fcntl
import os
import pathlib
import stat
from collections.abc import Callable

import pytest

from deepgym.sandboxed import boxes


def _deep(box: str) -> None:
    here = os.open(box, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 100, dir_fd=here)
        deeper = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


def _wide(box: str) -> None:
    for number in range(3000):
        os.mkdir(f"{box}/{number}")
        open(f"{box}/{number}/file", "w").close()


def _odd_names(box: str) -> None:
    for name in (b"\xff\xfe", b"new\nline", b" ", b"-rf", b"\x01\x02", "é".encode(), b"a" * 255):
        os.mkdir(os.fsencode(box) + b"/" + name)
        open(os.fsencode(box) + b"/" + name + b"/" + name, "w").close()


def _shut(box: str) -> None:
    os.makedirs(f"{box}/a/b/c")
    for path in (f"{box}/a/b/c", f"{box}/a/b", f"{box}/a", box):
        os.chmod(path, 0)


def _special(box: str) -> None:
    os.mkfifo(f"{box}/fifo")
    os.mknod(f"{box}/socket", stat.S_IFSOCK | 0o600)
    os.symlink("nowhere", f"{box}/dangling")
    os.symlink(".", f"{box}/loop")
    os.link(f"{box}/fifo", f"{box}/again")
    with open(f"{box}/sparse", "w") as sparse:
        sparse.truncate(1 << 40)


@pytest.mark.parametrize(
    "wreck", [_deep, _wide, _odd_names, _shut, _special], ids=lambda one: one.__name__[1:]
)
def test_whatever_became_of_a_box_it_is_removed(tmp_path: pathlib.Path, wreck: Callable[[str], None]) -> None:
    mine = boxes.Boxes(str(tmp_path / "zygote"), None)
    box = mine.new()
    wreck(box)
    assert not mine.emptied(box)
    boxes.remove(box)
    assert os.listdir(mine.folder) == []


def test_removal_follows_no_link(tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tmp_path / "file").write_text("kept")
    (tmp_path / "file").chmod(0o400)
    mine = boxes.Boxes(str(tmp_path / "zygote"), None)
    box = mine.new()
    os.symlink(outside, f"{box}/folder")
    os.symlink(tmp_path / "file", f"{box}/file")
    boxes.remove(box)
    assert (tmp_path / "file").read_text() == "kept"
    assert outside.stat().st_mode & 0o777 == 0o500
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o400


def test_a_box_that_was_left_as_it_was_is_removed_at_once(tmp_path: pathlib.Path) -> None:
    mine = boxes.Boxes(str(tmp_path / "zygote"), None)
    box = mine.new()
    assert os.listdir(box) == ["tmp"]
    assert mine.emptied(box)
    assert mine.new() != box


def test_what_a_killed_manager_left_is_swept_and_what_is_in_use_is_not(tmp_path: pathlib.Path) -> None:
    left, lock = boxes.state(str(tmp_path))
    _shut(boxes.Boxes(f"{left}/zygote", None).new())
    os.close(lock)
    used, lock = boxes.state(str(tmp_path))
    foreign = tmp_path / "somebody's own"
    foreign.mkdir()
    boxes.sweep(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted([os.path.basename(used), foreign.name])
    os.close(lock)


def test_a_folder_that_is_being_made_or_isnt_ours_is_left_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / f"deepgym-boxes-{os.getuid()}-new").mkdir()
    (tmp_path / f"deepgym-boxes-{os.getuid() + 1}-other").mkdir()
    boxes.sweep(str(tmp_path))
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_nothing_is_swept_that_somebody_else_made_in_our_name(tmp_path: pathlib.Path) -> None:
    """Root would follow whatever links its owner puts there meanwhile."""
    foreign, lock = boxes.state(str(tmp_path))
    os.close(lock)
    os.chown(foreign, 23456, 23456)
    (tmp_path / f"deepgym-boxes-{os.getuid()}-link").symlink_to(tmp_path / "elsewhere")
    elsewhere, lock = boxes.state(str(tmp_path))
    os.close(lock)
    os.rename(elsewhere, tmp_path / "elsewhere")
    boxes.sweep(str(tmp_path))
    assert os.path.exists(f"{foreign}/lock")
    assert (tmp_path / "elsewhere" / "lock").exists()


def test_the_lock_says_that_a_state_is_in_use(tmp_path: pathlib.Path) -> None:
    path, lock = boxes.state(str(tmp_path))
    other = os.open(f"{path}/lock", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
    os.close(lock)
