"""Pytest plugin: ``fake_provider`` and ``faulty_provider``.

    def test_an_outage(fake_provider, faulty_provider):
        provider = faulty_provider(fake_provider({"good": lambda a: a}), "network", "in_play")

Nothing of DeepGym is imported until a test asks for one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgym.providers.base import Provider
    from deepgym.testing.fakes import FakeProvider
    from deepgym.testing.faults import FaultyProvider

pytest.register_assert_rewrite(
    "deepgym.testing.laws",
    "deepgym.testing.session_laws",
    "deepgym.testing.act_laws",
    "deepgym.testing.session_bench",
)


@pytest.fixture
def fake_provider() -> Callable[..., FakeProvider]:
    """Makes a ``FakeProvider`` from a script of answers."""
    from deepgym.testing.fakes import FakeProvider

    return FakeProvider


@pytest.fixture
def faulty_provider() -> Callable[..., FaultyProvider]:
    """Makes a ``FaultyProvider``: ``(inner, kind, phase="queued", **options)``."""
    from deepgym.contract.evidence import Phase
    from deepgym.testing.faults import Fault, FaultyProvider

    def make(inner: Provider, kind: Any, phase: str = "queued", **options: Any) -> FaultyProvider:
        return FaultyProvider(inner, Fault(kind, Phase(phase)), **options)

    return make
