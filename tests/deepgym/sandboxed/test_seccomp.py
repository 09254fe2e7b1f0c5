"""The system-call filter, run by a small interpreter of its own: every number that matters, one by one."""

from __future__ import annotations

import errno
import signal
import struct
from typing import Any

import pytest

from deepgym.sandboxed import kernel, seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
X86, ARM = 0xC000003E, 0xC00000B7

#: name: (x86-64, aarch64), from the kernel's own tables; None where the machine has no such call.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "mount": (165, 40),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "setns": (308, 268),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "bpf": (321, 280),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "personality": (135, 92),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "memfd_secret": (447, 447),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
ALLOWED: dict[str, tuple[int, int]] = {
    "read": (0, 63),
    "write": (1, 64),
    "mmap": (9, 222),
    "execve": (59, 221),
    "exit_group": (231, 94),
    "wait4": (61, 260),
    "openat": (257, 56),
    "futex": (202, 98),
    "socketpair": (53, 199),
    "getrandom": (318, 278),
    "memfd_create": (319, 279),
    "prlimit64": (302, 261),
    "kill": (62, 129),
}
_MACHINES = {"x86_64": 0, "aarch64": 1}
_NAMESPACES = {
    "NEWTIME": 0x80,
    "NEWNS": 0x20000,
    "NEWCGROUP": 0x02000000,
    "NEWUTS": 0x04000000,
    "NEWIPC": 0x08000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
    "PARENT": 0x00008000,
}
_THREAD = 0x003D0F00  # what a C library passes for a new thread


def decide(code: list[tuple[int, int, int, int]], number: int, arch: int, first: int = 0) -> int:
    """What the filter answers for one system call."""
    data = struct.pack("<IIQ6Q", number, arch, 0, first, 0, 0, 0, 0, 0)
    accumulator = at = 0
    while True:
        operation, if_true, if_false, operand = code[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif operation == 0x06:
            return operand
        else:
            holds = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }[operation]
            at += if_true if holds else if_false


@pytest.fixture(params=_MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any]]:
    numbers = kernel._TABLES[request.param]
    monkeypatch.setattr(kernel, "numbers", numbers)
    return _MACHINES[request.param], numbers


@pytest.mark.parametrize("sockets", [False, True])
def test_every_call_that_reaches_beyond_the_sandbox_fails_with_eperm(machine: Any, sockets: bool) -> None:
    column, numbers = machine
    code = seccomp.instructions(sockets=sockets)
    for name, columns in DENIED.items():
        if columns[column] is not None:
            assert decide(code, columns[column], numbers["arch"]) == EPERM, name


def test_calls_that_programs_live_on_are_allowed(machine: Any) -> None:
    column, numbers = machine
    code = seccomp.instructions()
    for name, columns in ALLOWED.items():
        assert decide(code, columns[column], numbers["arch"]) == ALLOW, name


def test_nothing_else_is_denied_by_accident(machine: Any) -> None:
    _, numbers = machine
    code = seccomp.instructions(sockets=True)
    special = {*numbers["deny"], numbers["clone3"], numbers["socket"]}
    for number in set(range(1000)) - special:
        assert decide(code, number, numbers["arch"], first=signal.SIGCHLD) == ALLOW, number


def test_a_socket_is_denied_unless_loopback_is_wanted(machine: Any) -> None:
    _, numbers = machine
    inet = 2
    assert decide(seccomp.instructions(sockets=False), numbers["socket"], numbers["arch"], inet) == EPERM
    assert decide(seccomp.instructions(sockets=True), numbers["socket"], numbers["arch"], inet) == ALLOW


@pytest.mark.parametrize("family", [16, 17, 29, 30, 31, 38, 40, 44], ids=lambda number: f"AF_{number}")
def test_loopback_doesnt_open_the_families_that_no_network_namespace_holds(machine: Any, family: int) -> None:
    """Netlink, packet, CAN, TIPC, Bluetooth, ALG, VSOCK (which reaches a virtual machine's host) and XDP."""
    _, numbers = machine
    assert decide(seccomp.instructions(sockets=True), numbers["socket"], numbers["arch"], family) == EPERM


@pytest.mark.parametrize("flag", _NAMESPACES.values(), ids=_NAMESPACES)
def test_clone_with_any_namespace_flag_fails(machine: Any, flag: int) -> None:
    _, numbers = machine
    code = seccomp.instructions()
    for other in (0, signal.SIGCHLD, _THREAD):
        assert decide(code, numbers["clone"], numbers["arch"], other | flag) == EPERM


def test_clone_for_a_process_or_a_thread_is_allowed(machine: Any) -> None:
    _, numbers = machine
    code = seccomp.instructions()
    for flags in (signal.SIGCHLD, _THREAD, 0x01200011):
        assert decide(code, numbers["clone"], numbers["arch"], flags) == ALLOW


def test_clone3_doesnt_exist_so_that_libc_falls_back_to_what_can_be_read(machine: Any) -> None:
    _, numbers = machine
    assert decide(seccomp.instructions(), numbers["clone3"], numbers["arch"]) == ENOSYS


@pytest.mark.parametrize("arch", [0x40000003, 0x40000028, 0, 0xFFFFFFFF, "other"], ids=str)
def test_another_architectures_calls_kill_the_process(machine: Any, arch: Any) -> None:
    _, numbers = machine
    if arch == "other":
        arch = ARM if numbers["arch"] == X86 else X86
    code = seccomp.instructions(sockets=True)
    for number in (0, 1, 59, 101, 500):
        assert decide(code, number, arch) == KILL


def test_no_x32_call_is_allowed(machine: Any) -> None:
    _, numbers = machine
    code = seccomp.instructions(sockets=True)
    for number in (0x40000000, 0x40000001, 0x40000000 | 101, 0x40000000 | 521, 0x7FFFFFFF, 0xFFFFFFFF):
        assert decide(code, number, numbers["arch"]) in (EPERM, KILL)


def test_the_filter_looks_at_no_number_beyond_its_own_end(machine: Any) -> None:
    code = seccomp.instructions()
    for at, (operation, if_true, if_false, _) in enumerate(code):
        if operation in (0x15, 0x35, 0x45):
            assert at + 1 + max(if_true, if_false) < len(code)
            assert max(if_true, if_false) < 256
    assert code[-1][0] == 0x06


def test_the_program_is_the_instructions_as_the_kernel_reads_them() -> None:
    import ctypes

    code = seccomp.instructions()
    program = seccomp.program()
    length, address = struct.unpack("HxxxxxxQ", program.raw[:16])
    assert length == len(code)
    raw = ctypes.string_at(address, 8 * length)
    assert [struct.unpack_from("HBBI", raw, 8 * at) for at in range(length)] == code
