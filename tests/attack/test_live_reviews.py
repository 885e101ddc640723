"""Next to every attack live reviews are answered, and the program stays within its memory.

In the quick tier attacks take a few turns and nothing is measured; attacks by connections are in
``tests/serving/test_peers.py``. In the soak every attack lasts a minute and how long others wait is measured.
"""

from collections.abc import Callable

import pytest

from tests.attack.attacks import ATTACKS, Attack
from tests.attack.live import Live
from tests.attack.measure import measure
from tests.attack.peers import Peers
from tests.attack.processes import MemoryWatch, memory_limit
from tests.attack.subject import Subject

REVIEWS = 8
SECONDS = 60.0


@pytest.mark.limit(3, "megabytes of bodies are evaluated during the reviews")
@pytest.mark.parametrize(
    "attack", [attack for attack in ATTACKS if attack.short], ids=lambda attack: attack.name
)
def test_live_reviews_are_answered_during_long_work(attack: Attack, subject: Subject) -> None:
    assert attack.short
    with (
        MemoryWatch(subject.process.pid) as memory,
        Live(
            subject.port, str(subject.directory / "ca.crt"), subject.workers[0], long=attack.large, few=True
        ) as live,
    ):
        with Peers(subject, turns=attack.turns) as peers:
            attack.short(peers)
        live.wait_for(REVIEWS)
        count = live.stop()
    assert (count.failed, count.probes_failed) == (0, 0), f"{count}\n{subject.log()[-3000:]}"
    assert memory.peak < memory_limit(), f"{memory.peak >> 20} of {memory_limit() >> 20} MiB"


@pytest.mark.soak
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_live_reviews_are_answered_in_time_during_attacks(
    attack: Attack, record_property: Callable[[str, object], None]
) -> None:
    """No live review takes longer than two seconds, see README.md for why none.

    Time in which the server's loop could run and had no processor is not counted; without that the slowest of
    thousands took 1.6 s next to a load of 16 on two cores.
    """
    result = measure(attack, SECONDS)
    live = result.live
    row = (
        f"| {attack.name} | {live.failed}, {live.slow}, of {live.reviews}; {result.peak >> 20} |"
        f" slowest {live.slowest_ms:.0f} ms"
    )
    print(row)  # noqa: T201 - a row of README.md, shown by -rP
    record_property("measured", row)
    assert live.reviews >= SECONDS  # one a second; a hundred are due
    assert (live.failed, live.slow, live.probes_failed) == (0, 0, 0), f"{live}\n{result.log[-3000:]}"
    assert not result.replaced, result.log[-3000:]
    assert result.peak < result.limit, f"{result.peak >> 20} of {result.limit >> 20} MiB"
    assert "Traceback" not in result.log, result.log[-3000:]
