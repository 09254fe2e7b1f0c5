from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Slots that no other process of this user takes part in: its batch mustn't hold these tests up."""
    folder = str(tmp_path_factory.mktemp("slots"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepgym.providers.local.slots._directory", lambda: folder)
        yield folder
