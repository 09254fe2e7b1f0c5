"""Trees of a work directory: taking one ends whatever stands there, and nothing laid out leads outside."""

from __future__ import annotations

import os
import pathlib
import random
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgym.sandboxed.tree import entries, lay_out, take
from deepgym.sandboxed.wire import encode, frame

ROOM, FILES = 64 << 20, 20_000


def taken(place: str | pathlib.Path, room: int = ROOM, files: int = FILES) -> bytes:
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    before = set(os.listdir("/proc/self/fd"))
    try:
        data = b"".join(take(fd, room, files))
        assert set(os.listdir("/proc/self/fd")) == before
        return data
    finally:
        os.close(fd)


def listed(data: bytes) -> dict[str, Any]:
    """Path -> kind and content."""
    return {path: (kind, content) for path, kind, _, content in entries(data)}


def left_out(data: bytes) -> int:
    """What the last entry says."""
    found: int = int(data.rpartition(b'["","e",')[2].rstrip(b"]"))
    return found


@pytest.fixture
def place(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "copy"
    made.mkdir()
    return made


def test_an_empty_directory_is_a_tree_without_entries(place: pathlib.Path, copy: pathlib.Path) -> None:
    data = taken(place)
    assert (listed(data), left_out(data)) == ({}, 0)
    lay_out(data, str(copy))
    assert os.listdir(copy) == []


def test_files_directories_and_links_come_back_as_they_were(place: pathlib.Path, copy: pathlib.Path) -> None:
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "text").write_bytes(b"one\0two\xff")
    (place / "empty").touch()
    (place / "run").write_text("#!/bin/sh\n")
    (place / "run").chmod(0o755)
    (place / "link").symlink_to("a/b/text")
    (place / "a" / "up").symlink_to("../run")
    (place / "nowhere").symlink_to("none")
    lay_out(taken(place), str(copy))
    assert (copy / "a" / "b" / "text").read_bytes() == b"one\0two\xff"
    assert (copy / "empty").read_bytes() == b""
    assert (copy / "link").read_bytes() == b"one\0two\xff"
    assert (copy / "a" / "up").resolve() == copy / "run"
    assert os.readlink(copy / "nowhere") == "none"
    assert os.access(copy / "run", os.X_OK)
    assert not os.access(copy / "empty", os.X_OK)
    assert sorted(listed(taken(copy))) == sorted(listed(taken(place)))


def test_what_is_no_file_directory_or_link_is_left_out_and_never_waited_for(place: pathlib.Path) -> None:
    os.mkfifo(place / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(place, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/socket")
        os.close(folder)
        (place / "a").write_text("x")
        data = taken(place)
    assert listed(data) == {"a": ("f", b"x")}
    assert left_out(data) == 2


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes devices")
def test_devices_are_left_out(place: pathlib.Path) -> None:
    os.mknod(place / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    os.mknod(place / "disk", stat.S_IFBLK | 0o666, os.makedev(7, 250))
    data = taken(place)
    assert (listed(data), left_out(data)) == ({}, 2)


@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd",
        "/",
        "//etc",
        "..",
        "../",
        "../..",
        "../x",
        "a/../../x",
        "./../x",
        "a/..",
        "..//..",
        "x/./../y",
    ],
)
def test_links_that_could_lead_out_are_dropped(place: pathlib.Path, copy: pathlib.Path, target: str) -> None:
    (place / "link").symlink_to(target)
    lay_out(taken(place), str(copy))
    assert os.listdir(copy) == []


def test_a_link_in_a_ring_leads_nowhere(place: pathlib.Path, copy: pathlib.Path) -> None:
    """Where a name stands twice, ``os.path.realpath`` goes on with the rest: that mustn't be absolute."""
    (place / "ring").symlink_to("ring//etc/passwd")
    (place / "one").symlink_to("two//etc/passwd")
    (place / "two").symlink_to("one//etc/passwd")
    lay_out(taken(place), str(copy))
    for name in ("ring", "one", "two"):
        assert os.path.realpath(copy / name).startswith(str(copy))


@pytest.mark.parametrize(
    ("path", "target", "stays"),
    [
        ("d/l", "..", True),
        ("d/l", "../..", False),
        ("d/e/l", "../../x", True),
        ("d/e/l", "../../../x", False),
        ("d/l", "../x/../y", False),
        ("l", ".", True),
        ("l", "./x/y/", True),
        ("l", "...", True),
        ("l", "..x/y..", True),
        ("d/l", "../d/l", True),
    ],
)
def test_a_link_may_go_up_as_far_as_the_tree_goes(
    place: pathlib.Path, copy: pathlib.Path, path: str, target: str, stays: bool
) -> None:
    (place / path).parent.mkdir(parents=True, exist_ok=True)
    (place / path).symlink_to(target)
    lay_out(taken(place), str(copy))
    assert os.path.lexists(copy / path) == stays


def test_links_in_rings_and_rows_end(place: pathlib.Path, copy: pathlib.Path) -> None:
    (place / "self").symlink_to("self")
    (place / "one").symlink_to("two")
    (place / "two").symlink_to("one")
    (place / "here").symlink_to(".")
    for number in range(100):
        (place / f"row{number}").symlink_to(f"row{number + 1}")
    data = taken(place)
    lay_out(data, str(copy))
    assert sorted(os.listdir(copy)) == sorted(os.listdir(place))
    assert left_out(data) == 0


def test_links_arent_followed_when_a_tree_is_taken(place: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "secret").write_text("s")
    (place / "file").symlink_to(tmp_path / "secret")
    (place / "folder").symlink_to(tmp_path)
    (place / "loop").symlink_to(".")
    found = listed(taken(place))
    assert found["file"] == ("l", str(tmp_path / "secret"))
    assert set(found) == {"file", "folder", "loop"}


def test_names_that_arent_text_come_back(place: pathlib.Path, copy: pathlib.Path) -> None:
    names = [
        b"\xff\xfe",
        b"new\nline",
        b"quote\"'\\",
        "日本".encode(),
        b" ",
        b"-rf",
        b"*",
        b"\x01\x7f",
        b"a" * 255,
    ]
    for name in names:
        pathlib.Path(os.fsdecode(os.fsencode(place) + b"/" + name)).write_bytes(name)
    os.symlink(b"\xff\xfe", os.fsencode(place) + b"/link\xff")
    lay_out(taken(place), str(copy))
    assert sorted(os.listdir(os.fsencode(copy))) == sorted([*names, b"link\xff"])
    for name in [*names, b"link\xff"]:
        with open(os.fsencode(copy) + b"/" + name, "rb") as file:
            assert file.read() == (b"\xff\xfe" if name.startswith(b"link") else name)


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o4755, 0o2000, 0o1777])
def test_odd_modes_come_back_as_plain_ones(place: pathlib.Path, copy: pathlib.Path, mode: int) -> None:
    (place / "folder").mkdir()
    (place / "folder" / "file").write_text("x")
    (place / "folder" / "file").chmod(mode)
    (place / "folder").chmod(mode)
    try:
        data = taken(place)
    finally:
        (place / "folder").chmod(0o755)
    if os.getuid() != 0 and "folder/file" not in listed(data):
        assert left_out(data) == 1
        return
    lay_out(data, str(copy))
    assert stat.S_IMODE(os.stat(copy / "folder").st_mode) & 0o7000 == 0
    assert stat.S_IMODE(os.stat(copy / "folder" / "file").st_mode) in (0o644, 0o755)
    assert (copy / "folder" / "file").read_text() == "x"


def test_ten_thousand_files_come_back() -> None:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as above:
        place, copy = pathlib.Path(above, "work"), pathlib.Path(above, "copy")
        copy.mkdir()
        for folder in range(10):
            (place / str(folder)).mkdir(parents=True)
            for number in range(1000):
                os.close(os.open(place / str(folder) / str(number), os.O_CREAT | os.O_WRONLY))
        data = taken(place)
        assert (len(listed(data)), left_out(data)) == (10_010, 0)
        lay_out(data, str(copy))
        assert sum(len(files) for _, _, files in os.walk(copy)) == 10_000


def test_no_more_entries_than_are_allowed_are_taken(place: pathlib.Path) -> None:
    for number in range(50):
        (place / f"{number:02}").write_text("x")
    data = taken(place, files=20)
    assert sorted(listed(data)) == [f"{number:02}" for number in range(20)]
    assert left_out(data) == 30


def test_directories_count_as_entries_too(place: pathlib.Path) -> None:
    for number in range(30):
        (place / f"{number:02}" / "below").mkdir(parents=True)
    assert len(listed(taken(place, files=25))) == 25


def test_a_hundred_levels_are_taken_as_far_as_may_be(place: pathlib.Path, copy: pathlib.Path) -> None:
    deep = place.joinpath(*["d"] * 100)
    deep.mkdir(parents=True)
    (deep / "file").write_text("deep")
    (place / "d" / "shallow").write_text("shallow")
    data = taken(place)
    lay_out(data, str(copy))
    assert (copy / "d" / "shallow").read_text() == "shallow"
    assert left_out(data) >= 1
    assert 50 < sum(kind == "d" for kind, _ in listed(data).values()) < 100


def test_paths_beyond_the_systems_own_limit_are_left_out(place: pathlib.Path) -> None:
    here = os.open(place, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("n" * 255, dir_fd=here)
        below = os.open("n" * 255, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (place / "z").touch()
    data = taken(place)
    assert "z" in listed(data)
    assert all(len(path) <= 1024 for path in listed(data))
    assert left_out(data) == 1


def test_room_is_for_all_files_together_and_what_exceeds_it_is_left_out(place: pathlib.Path) -> None:
    for name, size in (("a", 400), ("b", 700), ("c", 500), ("d", 200), ("e", 0)):
        (place / name).write_bytes(b"x" * size)
    data = taken(place, room=1000)
    assert {path: len(content) for path, (_, content) in listed(data).items()} == {"a": 400, "c": 500, "e": 0}
    assert left_out(data) == 2


def test_targets_of_links_take_room(place: pathlib.Path) -> None:
    for number in range(10):
        (place / str(number)).symlink_to("x" * 1000)
    (place / "z").write_bytes(b"x" * 1000)
    data = taken(place, room=5000)
    assert "z" not in listed(data)
    assert len(data) < 20_000


def test_a_sparse_gibibyte_is_left_out_and_costs_nothing(place: pathlib.Path) -> None:
    with open(place / "sparse", "wb") as file:
        file.truncate(1 << 30)
    (place / "small").write_text("x")
    data = taken(place)
    assert (set(listed(data)), left_out(data)) == ({"small"}, 1)


def test_a_sparse_file_that_fits_comes_as_zeros(place: pathlib.Path) -> None:
    with open(place / "sparse", "wb") as file:
        file.truncate(1 << 20)
    assert listed(taken(place))["sparse"] == ("f", bytes(1 << 20))


@pytest.mark.parametrize("change", ["shorter", "longer", "gone", "replaced"])
def test_a_file_that_changes_while_it_is_read_keeps_its_promised_size(
    place: pathlib.Path, change: str
) -> None:
    path = place / "file"
    path.write_bytes(b"x" * (1 << 20))
    (place / "next").write_text("next")
    here = os.open(place, os.O_RDONLY)
    parts = []
    try:
        for number, piece in enumerate(take(here, ROOM, FILES)):
            parts.append(piece)
            if number == 1:
                if change == "shorter":
                    os.truncate(path, 10)
                elif change == "longer":
                    with open(path, "ab") as file:
                        file.write(b"y" * (1 << 20))
                else:
                    path.unlink()
                    if change == "replaced":
                        os.mkfifo(path)
    finally:
        os.close(here)
    found = listed(b"".join(parts))
    assert len(found["file"][1]) == 1 << 20
    assert found["file"][1].startswith(b"x" * (1 << 18))
    assert found["next"] == ("f", b"next")


def test_a_file_that_cant_be_read_to_its_end_keeps_its_promised_size(
    place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a").write_bytes(b"x" * (1 << 20))
    (place / "b").write_text("b")
    real, count = os.read, 0

    def fail(fd: int, size: int) -> bytes:
        nonlocal count
        count += 1
        if count == 2:
            raise OSError(5, "Input/output error")
        return real(fd, size)

    monkeypatch.setattr(os, "read", fail)
    data = taken(place)
    monkeypatch.undo()
    assert len(listed(data)["a"][1]) == 1 << 20
    assert listed(data)["b"] == ("f", b"b")


def test_a_directory_that_changes_all_the_time_is_taken_to_its_end(place: pathlib.Path) -> None:
    """Directories become links, links files, files pipes; whatever is seen, it is a whole tree."""
    stop = threading.Event()
    outside = place.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")

    def shuffle() -> None:
        rng = random.Random(0)
        while not stop.is_set():
            path = str(place / str(rng.randrange(5)))
            try:
                kind = rng.randrange(5)
                if kind == 0:
                    os.unlink(path)
                elif kind == 1:
                    os.rmdir(path)
                elif kind == 2:
                    os.symlink(outside, path)
                elif kind == 3:
                    os.mkdir(path)
                else:
                    os.mkfifo(path)
            except OSError:
                pass

    thread = threading.Thread(target=shuffle)
    thread.start()
    try:
        for _ in range(300):
            found = listed(b"".join(_pieces(place)))
            assert not any(path.endswith("/secret") for path in found)
            assert not any(kind == "f" for kind, _ in found.values())
    finally:
        stop.set()
        thread.join()


def _pieces(place: pathlib.Path) -> Iterator[bytes]:
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield from take(fd, ROOM, FILES)
    finally:
        os.close(fd)


def test_the_order_is_that_of_the_names_so_that_equal_trees_are_equal(place: pathlib.Path) -> None:
    for name in ("b", "a", "C", "ż", "0"):
        (place / name).write_text(name)
    first = taken(place)
    for name in ("0", "ż", "C", "a", "b"):
        (place / name).unlink()
        (place / name).write_text(name)
    assert taken(place) == first
    assert list(listed(first)) == sorted(listed(first))


# Trees that aren't whole.


@pytest.mark.parametrize("size", range(0, 60, 3))
def test_a_tree_that_was_cut_is_refused(place: pathlib.Path, size: int) -> None:
    (place / "a").write_text("some content")
    (place / "b").mkdir()
    data = taken(place)
    assert size < len(data)
    with pytest.raises(ValueError, match=r"."):
        list(entries(data[:size]))


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0\0\0", b"\xff\xff\xff\xff", frame(b"no JSON"), frame(encode(["a", "f", 0, 5]))]
)
def test_bytes_that_are_no_tree_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(entries(data))


def test_what_cant_be_written_is_left_out_and_the_rest_is_there(copy: pathlib.Path) -> None:
    data = b"".join(
        [
            frame(encode(["a", "f", False, 1])) + b"1",
            frame(encode(["a", "d"])),
            frame(encode(["a/b", "f", False, 1])) + b"2",
            frame(encode(["none/c", "f", False, 1])) + b"3",
            frame(encode(["x" * 300, "f", False, 1])) + b"4",
            frame(encode(["a", "f", False, 1])) + b"5",
            frame(encode(["a", "l", "z"])),
            frame(encode(["z", "f", True, 1])) + b"6",
            frame(encode(["", "e", 0])),
        ]
    )
    lay_out(data, str(copy))
    assert {path.name: path.read_text() for path in copy.iterdir()} == {"a": "1", "z": "6"}


# Nothing that is laid out leads outside.

_NAMES = st.sampled_from(["a", "b", "c", "d"])
_STEPS = st.lists(st.sampled_from(["a", "b", "c", "d", "..", ".", ""]), min_size=1, max_size=6)
_TARGETS = st.one_of(
    _STEPS.map("/".join).filter(bool),
    st.integers(0, 5).flatmap(lambda up: _STEPS.map(lambda rest: "/".join([".."] * up + rest))).filter(bool),
    st.sampled_from(["/", "/etc", "//", "/proc/self/root", "/dev/fd/0"]),
)
_KIND = st.one_of(st.none(), st.just(b""), _TARGETS)
_TREES = st.lists(st.tuples(st.lists(_NAMES, min_size=1, max_size=4), _KIND), max_size=25)


def _build(place: str, made: list[tuple[list[str], Any]]) -> None:
    for path, kind in made:
        target = os.path.join(place, *path)
        try:
            if os.path.realpath(os.path.dirname(target)) != os.path.dirname(target):
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if kind is None:
                os.mkdir(target)
            elif kind == b"":
                with open(target, "xb") as file:
                    file.write(b"inside")
            else:
                os.symlink(kind, target)
        except OSError:
            pass


@settings(max_examples=100, deadline=None)
@given(_TREES)
def test_no_path_through_a_tree_that_was_laid_out_leads_outside(made: list[tuple[list[str], Any]]) -> None:
    with tempfile.TemporaryDirectory() as above:
        above = os.path.realpath(above)
        source, inside = os.path.join(above, "source"), os.path.join(above, "x", "y", "copy")
        os.makedirs(source)
        os.makedirs(inside)
        _build(source, made)
        lay_out(taken(source), inside)
        frontier, seen = [""], set()
        # Every name of the tree after every other, through links too.
        for _ in range(4):
            frontier = [f"{path}/{name}" for path in frontier for name in "abcd"]
            kept = []
            for path in frontier:
                real = os.path.realpath(inside + path)
                assert real == inside or real.startswith(inside + "/"), (path, real)
                if os.path.isdir(real) and (real, path.count("/")) not in seen:
                    seen.add((real, path.count("/")))
                    kept.append(path)
            frontier = kept


@settings(max_examples=50, deadline=None)
@given(_TREES)
def test_files_and_directories_come_back_whatever_links_stand_among_them(
    made: list[tuple[list[str], Any]],
) -> None:
    with tempfile.TemporaryDirectory() as above:
        source, inside = os.path.join(above, "source"), os.path.join(above, "copy")
        os.mkdir(source)
        os.mkdir(inside)
        _build(source, made)
        data = taken(source)
        lay_out(data, inside)
        for path, (kind, content) in listed(data).items():
            target = os.path.join(inside, path)
            if kind == "f":
                assert not os.path.islink(target)
                with open(target, "rb") as file:
                    assert file.read() == content == b"inside"
            elif kind == "d":
                assert os.path.isdir(target)
                assert not os.path.islink(target)
