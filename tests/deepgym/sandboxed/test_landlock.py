"""Landlock's rulesets, by every version of it up to this kernel's."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys

import pytest

from deepgym.sandboxed import kernel, landlock

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or landlock.version() == 0, reason="this kernel has no Landlock"
)

_TRY = """
import json, os, sys
from deepgym.sandboxed import kernel, landlock
known, box, outside = int(sys.argv[1]), sys.argv[2], sys.argv[3]
rules = [(os.open("/usr", os.O_PATH), landlock.READ), (os.open(box, os.O_PATH), landlock.BOX)]
rules += [(os.open(sys.base_prefix, os.O_PATH), landlock.READ), (os.open("/dev/null", os.O_PATH), landlock.USE)]
def works(action):
    try:
        action()
    except OSError:
        return False
    return True
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
landlock.restrict(landlock.ruleset(known, rules))
print(json.dumps({
    "reads outside": works(lambda: open(outside)),
    "writes outside": works(lambda: open(outside, "a")),
    "truncates outside": works(lambda: os.truncate(outside, 0)),
    "signals": works(lambda: os.kill(os.getppid(), 0)),
    "makes in its box": works(lambda: (os.mkdir(box + "/d"), open(box + "/d/f", "w"), os.symlink("x", box + "/l"))),
    "makes a device": works(lambda: os.mknod(box + "/device", 0o20666, os.makedev(1, 3))),
    "uses a device": works(lambda: open("/dev/null", "w").write("x")),
    "writes what it may read": works(lambda: open(os.__file__, "a")),
}))
"""


@pytest.mark.parametrize("known", [1, 2, 3, 4, 5, 6, 7])
def test_a_ruleset_refuses_what_no_rule_allows(tmp_path: pathlib.Path, known: int) -> None:
    import json

    if known > landlock.version():
        pytest.skip(f"this kernel speaks version {landlock.version()}")
    outside = tmp_path / "outside"
    outside.write_text("kept")
    box = tmp_path / "box"
    box.mkdir()
    source = pathlib.Path(landlock.__file__).parents[2]
    found = json.loads(
        subprocess.run(
            [sys.executable, "-c", _TRY, str(known), str(box), str(outside)],
            env={"PYTHONPATH": str(source)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
    )
    assert found == {
        "reads outside": False,
        "writes outside": False,
        "truncates outside": known < 3,
        "signals": known < 6,
        "makes in its box": True,
        "makes a device": False,
        "uses a device": True,
        "writes what it may read": False,
    }


def test_a_rule_that_the_kernel_refuses_is_an_error(tmp_path: pathlib.Path) -> None:
    reader, writer = os.pipe()
    with pytest.raises(OSError, match="landlock_add_rule") as caught:
        landlock.ruleset(landlock.version(), [(reader, landlock.READ)])
    assert caught.value.errno in (errno.EBADFD, errno.EINVAL)
    os.close(reader)
    os.close(writer)


def test_restricting_without_no_new_privs_or_a_ruleset_is_an_error() -> None:
    with pytest.raises(OSError, match="landlock_restrict_self"):
        landlock.restrict(kernel.libc.dup(0))
