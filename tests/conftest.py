from __future__ import annotations

import os
from functools import lru_cache

import pytest


@lru_cache(maxsize=1)
def _missing() -> str | None:
    from deepgym.providers.local.check import namespaces_missing

    return namespaces_missing()


def _require_namespaces() -> None:
    reason = _missing()
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI is set, and the local sandbox can't run here: {reason}", pytrace=False)
    pytest.skip(f"the local sandbox can't run here: {reason}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("local_sandbox"):
        _require_namespaces()


@pytest.fixture(scope="session")
def local_sandbox() -> None:
    """Skip (or with CI set, fail) where the machine can't give namespaces."""
    _require_namespaces()
