"""What trainers warn of about themselves is theirs; a warning from our own code stays an error."""

from __future__ import annotations

import os

import pytest

os.environ.update(
    {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRL_EXPERIMENTAL_SILENCE": "1",
    }
)

FILTERS = ("default", "error:::deepgym", "error:::deepgym_trl")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for line in FILTERS:
            item.add_marker(pytest.mark.filterwarnings(line), append=True)
