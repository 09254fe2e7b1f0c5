from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from deepgym import DeepGym

from .injector import Injector
from .laws import Ledger
from .seams import installed


@pytest.fixture(scope="session")
def own_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Slots that no other process of this user takes part in."""
    folder = str(tmp_path_factory.mktemp("slots"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepgym.providers.local.slots._directory", lambda: folder)
        yield folder


@pytest.fixture(scope="session")
def injector(local_sandbox: None, own_slots: str) -> Iterator[Injector]:
    with DeepGym(slots=2) as client:
        made = Injector(client, Ledger())
        with installed(made.scene_for):
            yield made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How often each part was broken in each phase, and how often the laws were looked at."""
    struck: Counter[str] = Counter()
    checks = broken = 0
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in (
                getattr(report, "user_properties", ()) if getattr(report, "when", "") == "teardown" else ()
            ):
                if name == "struck":
                    struck.update(value)
                elif name == "laws":
                    checks, broken = checks + value[0], broken + value[1]
    if struck:
        terminalreporter.section("faults")
        for name in sorted(struck):
            terminalreporter.line(f"{name:36}{struck[name]:6}")
        terminalreporter.line(
            f"{struck.total()} faults in {len(struck)} cells; {checks} law checks, {broken} broken"
        )
