from __future__ import annotations

import os
from functools import lru_cache

import pytest


@lru_cache(maxsize=1)
def _missing() -> str | None:
    from deepgym.providers.local.tiers import missing

    return missing(os.environ.get("DEEPGYM_TEST_ISOLATION", "namespaces"))


def _require_sandbox() -> None:
    reason = _missing()
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI is set, and the local sandbox can't run here: {reason}", pytrace=False)
    pytest.skip(f"the local sandbox can't run here: {reason}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("local_sandbox"):
        _require_sandbox()


@pytest.fixture(scope="session")
def local_sandbox() -> None:
    """Skip (or with CI set, fail) where the machine can't give namespaces."""
    _require_sandbox()
