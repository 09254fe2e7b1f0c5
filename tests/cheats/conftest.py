from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from deepgym import DeepGym

from .catalogue import cheats


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a cheat, or one a cheat and naive harness."""
    if "harness" in metafunc.fixturenames and "cheat" in metafunc.fixturenames:
        found = [(cheat, *naive) for cheat in cheats() for naive in cheat.naive]
        names = [f"{cheat.name}-{harness}" for cheat, harness, _ in found]
        metafunc.parametrize(("cheat", "harness", "pays"), found, ids=names)
    elif "cheat" in metafunc.fixturenames:
        metafunc.parametrize("cheat", cheats(), ids=lambda cheat: cheat.name)


@pytest.fixture(scope="session")
def options() -> dict[str, Any]:
    """What every client of these tests is made with."""
    tier = os.environ.get("DEEPGYM_TEST_ISOLATION", "auto")
    return {} if tier == "auto" else {"isolation": tier}


@pytest.fixture(scope="session", autouse=True)
def own_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Slots that no other process of this user takes part in."""
    folder = str(tmp_path_factory.mktemp("slots"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepgym.providers.local.slots._directory", lambda: folder)
        yield folder


@pytest.fixture(scope="session")
def client(local_sandbox: None, own_slots: str, options: dict[str, Any]) -> Iterator[DeepGym]:
    """One client with one slot, so that a run follows the one before it on the same warm processes."""
    with DeepGym(slots=1, **options) as client:
        yield client
