"""What lm-eval and what it imports warn of is theirs; a warning from our own code stays an error."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

os.environ.update(
    {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
)

if TYPE_CHECKING:
    from deepgym.environments import Environment

FILTERS = ("default", "error:::deepgym", "error:::deepgym_lmeval")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for line in FILTERS:
            item.add_marker(pytest.mark.filterwarnings(line), append=True)


@pytest.fixture(scope="session")
def humaneval() -> tuple[Environment, ...]:
    from deepgym.environments import load_suite

    return load_suite("humaneval").environments


@pytest.fixture(scope="session")
def known(humaneval: tuple[Environment, ...]) -> tuple[Environment, ...]:
    """All environments that the tasks of lm-eval hold."""
    from deepgym.environments import load_suite

    return (*humaneval, *load_suite("builtin"))
