from __future__ import annotations

import os
import runpy
import signal
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

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


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C does what it does in a terminal. A shell's background jobs ignore it, and so
    would every process that a test starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def local_sandbox() -> None:
    """Skip (or with CI set, fail) where the machine can't give namespaces."""
    _require_sandbox()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of a tiny Qwen2 with random weights and a ChatML tokenizer."""
    return _tiny(tmp_path_factory, "qwen2")


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same for tools: a Qwen3 with a chat template whose tool calls TRL can parse."""
    return _tiny(tmp_path_factory, "qwen3")


def _tiny(tmp_path_factory: pytest.TempPathFactory, kind: str) -> str:
    build = runpy.run_path(str(Path(__file__).with_name("tiny_models.py")))["build"]
    path: str = build(tmp_path_factory.mktemp("models") / kind, kind)
    return path
