from __future__ import annotations

import pytest

from deepgym.providers.local.slots import HostSlots

pytestmark = pytest.mark.usefixtures("local_sandbox")


def test_a_slot_that_went_with_its_lock_file_is_released_without_a_fuss() -> None:
    slots = HostSlots(64)
    number = slots.acquire()
    assert number is not None
    slots.forget()
    slots.release(number)
    assert not slots.holds(number)
    again = slots.acquire()
    assert again is not None
    slots.release(again)
    slots.forget()
