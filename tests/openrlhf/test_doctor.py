"""``deepgym doctor openrlhf`` beside a real OpenRLHF."""

from __future__ import annotations

import pytest

from deepgym_openrlhf import versions
from deepgym_openrlhf.check import findings

pytestmark = [pytest.mark.local_sandbox]


def test_the_installed_openrlhf_understands_the_endpoint_and_takes_both_files() -> None:
    found = {finding.name: finding for finding in findings()}
    assert {name: f"{one.status}: {one.detail}" for name, one in found.items() if one.status != "ok"} == {}
    assert found["openrlhf"].detail.startswith(f"{versions.installed()} ")
    for name in ("rewards", "two addresses", "the agent file", "the Python file"):
        assert found[name].detail == "reference 1, empty answer 0"
    assert found["a run without a verdict"].detail == "it gets infra_failure_score: -0.25 of -0.25"


def test_the_flags_that_are_named_are_those_of_the_installed_openrlhf() -> None:
    from dataclasses import asdict
    from importlib.metadata import files

    from deepgym_openrlhf.flags import flags_of

    (path,) = [path for path in files("openrlhf") or () if str(path).endswith("cli/train_ppo_ray.py")]
    (flags,) = flags_of(versions.installed())
    source = path.read_text()
    names = {value for field, value in asdict(flags).items() if field != "versions"}
    assert len(names) == 7
    assert {name for name in names if f'"{name}"' not in source} == set()
