"""What the filter denies besides to a process that has no namespaces, name by name."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import pytest

from deepgym.sandboxed import kernel, seccomp

_spec = importlib.util.spec_from_file_location(
    "seccomp_tables", pathlib.Path(__file__).parent / "test_seccomp.py"
)
assert _spec is not None
assert _spec.loader is not None
_tables: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_tables)
decide, ALLOW, EPERM = _tables.decide, _tables.ALLOW, _tables.EPERM

#: name: (x86-64, aarch64), from the kernel's own tables; None where the machine has no such call.
OUTLIVES_A_PROCESS: dict[str, tuple[int | None, int | None]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
CHANGES_WHAT_ALL_MAY_WRITE: dict[str, tuple[int | None, int | None]] = {
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
REACHES_WHAT_THE_USER_OWNS: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
}
TAKES_A_PROCESS: dict[str, tuple[int, int]] = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any]]:
    numbers = kernel._TABLES[request.param]
    monkeypatch.setattr(kernel, "numbers", numbers)
    return ["x86_64", "aarch64"].index(request.param), numbers


@pytest.mark.parametrize("beside", ["other", "own"])
def test_what_outlives_a_process_is_denied_where_no_ipc_namespace_ends_it(machine: Any, beside: str) -> None:
    column, numbers = machine
    code = seccomp.instructions(beside=beside)
    for name, columns in {**OUTLIVES_A_PROCESS, **CHANGES_WHAT_ALL_MAY_WRITE, **_tables.DENIED}.items():
        if columns[column] is not None:
            assert decide(code, columns[column], numbers["arch"]) == EPERM, name


def test_the_users_own_files_and_processes_are_out_of_reach_of_an_answer_with_its_id(machine: Any) -> None:
    column, numbers = machine
    code = seccomp.instructions(beside="own")
    for name, columns in REACHES_WHAT_THE_USER_OWNS.items():
        if columns[column] is not None:
            assert decide(code, columns[column], numbers["arch"]) == EPERM, name


def test_a_process_may_change_itself_and_no_other(machine: Any) -> None:
    column, numbers = machine
    code = seccomp.instructions(beside="own")
    for name, columns in TAKES_A_PROCESS.items():
        assert decide(code, columns[column], numbers["arch"], 0) == ALLOW, name
        for other in (1, 4242, 0xFFFFFFFF):
            assert decide(code, columns[column], numbers["arch"], other) == EPERM, name


def test_an_answer_with_a_user_id_of_its_own_may_do_with_its_own_what_it_likes(machine: Any) -> None:
    column, numbers = machine
    code = seccomp.instructions(beside="other")
    for name, columns in {**REACHES_WHAT_THE_USER_OWNS, **TAKES_A_PROCESS}.items():
        if columns[column] is not None:
            assert decide(code, columns[column], numbers["arch"], 4242) == ALLOW, name


def test_nothing_else_is_denied_by_accident(machine: Any) -> None:
    column, numbers = machine
    code = seccomp.instructions(beside="own")
    tables = (OUTLIVES_A_PROCESS, CHANGES_WHAT_ALL_MAY_WRITE, REACHES_WHAT_THE_USER_OWNS, TAKES_A_PROCESS)
    special = {columns[column] for table in (_tables.DENIED, *tables) for columns in table.values()}
    special |= {numbers["clone3"], numbers["socket"]}
    for number in set(range(1000)) - special:
        assert decide(code, number, numbers["arch"], first=17) == ALLOW, number


def test_no_jump_leaves_the_filter(machine: Any) -> None:
    code = seccomp.instructions(beside="own")
    for at, (operation, if_true, if_false, _) in enumerate(code):
        if operation in (0x15, 0x35, 0x45):
            assert at + 1 + max(if_true, if_false) < len(code)
            assert max(if_true, if_false) < 256
