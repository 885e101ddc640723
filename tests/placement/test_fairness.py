"""No one starves: a stream of small jobs that would fill the cluster for ever, and a large one among them."""

import pytest

from tests.placement.simulation import Arrival, simulate
from tests.placement.world import servers

NODES = list(servers(3).values())
LASTS, END = 40, 240
LARGE = Arrival(60, "large", 8, 30)


def stream(workers: int) -> list[Arrival]:
    """Returns four hours of jobs that arrive a quarter faster than the cluster can serve them."""
    every = LASTS * workers / len(NODES) / 1.25
    return [
        Arrival(round(number * every, 2), f"s{number}", workers, LASTS) for number in range(int(END / every))
    ]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_eight_workers_are_placed_within_the_length_of_the_jobs_before_them(workers: int) -> None:
    run = simulate(NODES, [*stream(workers), LARGE], end=END)
    # Jobs that waited already when it came come before it: those of the hour before, a quarter
    # more than were served. The stream itself is not faster.
    queue = 60 * 0.25
    assert run.started["large"] - LARGE.at <= 10 + 2 * LASTS + queue


def test_single_nodes_are_reserved_too_for_a_job_of_several() -> None:
    # Seven workers fill no pairs: node config 1, as the stream, with which it could share nodes.
    odd = Arrival(60, "odd", 7, 30)
    run = simulate(NODES, [*stream(1), odd], end=END)
    assert run.started["odd"] - odd.at <= 10 + 2 * LASTS + 60 * 0.25
