"""The local sandbox keeps the contract's laws, with real answers in it."""

from __future__ import annotations

import pytest

from deepgym.providers.base import Provider
from deepgym.testing.laws import ContractLaws


@pytest.mark.local_sandbox
class TestTheLocalProvider(ContractLaws):
    def provider(self) -> Provider:
        from deepgym.providers.local.provider import LocalProvider

        return LocalProvider()
