"""Beside every attack live reviews pass, in time, and the program stays within its memory."""

from __future__ import annotations

import pytest

from tests.attack.attacks import ATTACKS, Attack
from tests.attack.live import SLOW_SECONDS
from tests.attack.measure import measure

# How long others wait is a finding about the program only where nothing else loads the machine.
pytestmark = pytest.mark.alone
SECONDS = 4.0


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_live_reviews_pass_beside(attack: Attack) -> None:
    found = measure(attack, attack.short, SECONDS)
    live = found.live
    assert live.reviews >= 20
    assert (live.failed, live.probes_failed) == (0, 0), f"{live}\n{found.log[-3000:]}"
    # A small machine stands still for a moment by itself, so one in a hundred may be slow.
    assert live.p99_ms < SLOW_SECONDS * 1000, f"{live}\n{found.log[-3000:]}"
    assert not found.replaced, found.log[-3000:]
    assert found.peak < found.limit, f"{found.peak >> 20} of {found.limit >> 20} MiB"
    assert "Traceback" not in found.log, found.log[-3000:]
