"""A few hundred runs, honest and hostile by turns: no wrong result, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.local_sandbox

_RUNS = 600
_SOAK = Path(__file__).with_name("soak.py")


def test_no_result_is_wrong_and_nothing_leaks() -> None:
    """In a process of its own: what the soak counts are that process's."""
    tier = os.environ.get("DEEPGYM_TEST_ISOLATION", "auto")
    command = [sys.executable, str(_SOAK), "--runs", str(_RUNS), "--isolation", tier]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = done.stdout
    assert done.returncode == 0, said
    assert "0 wrong results, 0 leaks" in said, said
    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (honest|hostile|wrong)\b", said)}
    assert counts["honest"] + counts["hostile"] >= _RUNS * 0.9, said
    assert min(counts["honest"], counts["hostile"]) >= _RUNS // 3, said
    before, warm = (
        dict(zip(line[1::2], map(int, line[2::2]), strict=True))
        for line in map(str.split, said.splitlines())
        if line[:1] in (["before"], ["warm"])
    )
    for name in ("processes", "descriptors"):
        assert warm[name] > before[name], said
