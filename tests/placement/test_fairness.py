"""Tests that a large job starts in time although a stream of small jobs would fill the cluster for ever."""

import pytest

from tests.placement.simulation import Arrival, simulate
from tests.placement.world import servers

NODES = list(servers(3).values())
JOB_MINUTES, END = 40, 240
LARGE = Arrival(60, "large", 8, 30)


def stream(workers: int) -> list[Arrival]:
    """Returns four hours of jobs that arrive a quarter faster than the cluster can serve them."""
    interval = JOB_MINUTES * workers / len(NODES) / 1.25
    return [
        Arrival(round(number * interval, 2), f"s{number}", workers, JOB_MINUTES)
        for number in range(int(END / interval))
    ]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_job_of_eight_workers_starts_soon_after_the_jobs_before_it_have_ended(workers: int) -> None:
    run = simulate(NODES, [*stream(workers), LARGE], end=END)
    # The jobs that wait when the large job arrives come before it. After an hour of a stream that is a
    # quarter too fast, they need a quarter of an hour.
    queue = 60 * 0.25
    assert run.started["large"] - LARGE.at <= 10 + 2 * JOB_MINUTES + queue


def test_single_nodes_are_reserved_for_a_job_of_seven_workers() -> None:
    # Seven workers fill no pairs, so the job has node config 1, as the jobs of the stream.
    seven_workers = Arrival(60, "odd", 7, 30)
    run = simulate(NODES, [*stream(1), seven_workers], end=END)
    assert run.started["odd"] - seven_workers.at <= 10 + 2 * JOB_MINUTES + 60 * 0.25
