"""Fakes, injected faults and the contract's laws, for the tests of anything that stands on DeepGym."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgym.testing.fakes import Behaviour, FakeProvider
    from deepgym.testing.faults import FAULTS, Fault, FaultyProvider
    from deepgym.testing.session_faults import SESSION_FAULTS, SessionFault
    from deepgym.testing.sessions import FakeSessions, FakeWorkspace

__all__ = [
    "FAULTS",
    "SESSION_FAULTS",
    "Behaviour",
    "FakeProvider",
    "FakeSessions",
    "FakeWorkspace",
    "Fault",
    "FaultyProvider",
    "SessionFault",
]

_HOMES = {
    "FAULTS": "faults",
    "SESSION_FAULTS": "session_faults",
    "Behaviour": "fakes",
    "FakeProvider": "fakes",
    "FakeSessions": "sessions",
    "FakeWorkspace": "sessions",
    "Fault": "faults",
    "FaultyProvider": "faults",
    "SessionFault": "session_faults",
}


def __getattr__(name: str) -> object:
    # pytest loads this package in every session, for the plugin's sake.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"deepgym.testing.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
