"""What trainers warn of about themselves is theirs; a warning from our own code stays an error."""

from __future__ import annotations

import os

import pytest

os.environ.update(
    {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "AXOLOTL_DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRL_EXPERIMENTAL_SILENCE": "1",
    }
)

FILTERS = ("default", "error:::deepgym", "error:::deepgym_trl", "error:::deepgym_axolotl")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for line in FILTERS:
            item.add_marker(pytest.mark.filterwarnings(line), append=True)


@pytest.fixture(scope="session")
def axolotl() -> None:
    """Axolotl imported, and with it its logging set up, before a test's own handlers are."""
    import axolotl.cli.config
    import axolotl.cli.main
    import axolotl.cli.train  # noqa: F401
