"""What verl, Ray and torch warn of about themselves is theirs; a warning from our own code stays an error."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

os.environ.update(
    {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
    }
)

FILTERS = ("default", "error:::deepgym", "error:::deepgym_verl")
BARE = Path(__file__).with_name("bare")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without verl, all but the tests that need nothing of it are left alone."""
    bare = collection_path == BARE or BARE in collection_path.parents
    if collection_path.suffix != ".py" or bare or importlib.util.find_spec("verl") is not None:
        return None
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if BARE not in item.path.parents:
            for line in FILTERS:
                item.add_marker(pytest.mark.filterwarnings(line), append=True)
