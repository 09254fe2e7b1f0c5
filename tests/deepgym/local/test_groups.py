"""Where control groups are made, and that none is left behind."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

from deepgym.providers.local import cgroup
from deepgym.providers.local.cgroup import Group


@pytest.fixture
def version_2(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pathlib.Path]:
    """``version_2(own, controlled)``: a hierarchy of version 2 whose groups in ``controlled`` have children
    with controllers. Returns its root.
    """
    root = tmp_path / "cgroup"

    def make(own: str, *controlled: str) -> pathlib.Path:
        (root / own.lstrip("/")).mkdir(parents=True)
        (root / "cgroup.controllers").write_text("memory pids\n")
        table = tmp_path / "table"
        table.write_text(f"0::{own}\n")
        monkeypatch.setattr(cgroup, "_ROOT", str(root))
        monkeypatch.setattr(cgroup, "_OWN", str(table))
        mkdir = os.mkdir

        def made(path: str, *mode: int) -> None:
            mkdir(path, *mode)
            if os.path.dirname(path) in [str(root) + place for place in controlled]:
                for name in ("memory.max", "pids.max", "cgroup.procs"):
                    pathlib.Path(path, name).write_text("max\n")

        monkeypatch.setattr(cgroup.os, "mkdir", made)
        return root

    return make


def test_a_group_of_version_2_is_made_beside_this_process_not_below_it(
    version_2: Callable[..., pathlib.Path],
) -> None:
    root = version_2("/user/app/job", "/user/app")
    group = Group.make("deepgym-1-0")
    assert group is not None
    assert group.bounds_memory
    assert group.bounds_pids
    assert group.procs() == [f"{root}/user/app/deepgym-1-0/cgroup.procs"]
    group.limit(1 << 20, 7)
    assert (root / "user/app/deepgym-1-0/memory.max").read_text() == str(1 << 20)
    assert (root / "user/app/deepgym-1-0/pids.max").read_text() == "7"
    (root / "user/app/deepgym-1-0/memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.oom_killed()
    assert not group.oom_killed()


def test_a_hierarchy_without_controllers_gives_no_group_and_keeps_none(
    version_2: Callable[..., pathlib.Path],
) -> None:
    root = version_2("/user/app/job")
    assert Group.make("deepgym-1-0") is None
    assert not list(root.rglob("deepgym-*"))


def test_no_group_is_looked_for_above_the_hierarchys_root(version_2: Callable[..., pathlib.Path]) -> None:
    root = version_2("/", "")
    group = Group.make("deepgym-1-0")
    assert group is not None
    assert group.procs() == [f"{root}/deepgym-1-0/cgroup.procs"]


def test_a_group_that_cant_be_removed_yet_goes_later(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "_left", set())
    busy = tmp_path / "deepgym-1-0"
    (busy / "dying").mkdir(parents=True)
    Group(str(busy), "memory.max", str(busy)).remove()
    assert busy.exists()
    cgroup.remove_left(0.05)
    assert busy.exists()
    (busy / "dying").rmdir()
    cgroup.remove_left()
    assert not busy.exists()
