"""Tests of two teams with guarantees, and a team without, on the real scheduler."""

import urllib.request
from collections.abc import Iterator

import pytest

from contract.keys import SERVER_4
from testbed.experiment.stage import TEAMS, Stage
from testbed.plane.process import free_ports
from testbed.waiting import until

FIRST, SECOND, OTHER = TEAMS
ROWS = f"""
guarantees:
  - {{namespaces: {FIRST}, unit: {SERVER_4}, count: 2}}
  - {{namespaces: {SECOND}, unit: {SERVER_4}, count: 1}}
"""


@pytest.fixture
def port(stage: Stage) -> Iterator[int]:
    """The port with the metrics of a program whose table guarantees three of six UltraServers."""
    assert stage.rules
    table = stage.rules.read_text(encoding="utf-8")
    (port,) = free_ports(1)
    try:
        stage.rules.write_text(table + ROWS, encoding="utf-8")
        stage.start_program(metrics_port=port, metrics_host="127.0.0.1")
        yield port
    finally:
        stage.rules.write_text(table, encoding="utf-8")


def three_jobs_wait(port: int) -> bool:
    """Returns whether three jobs wait because of guarantees."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return 'waiting_jobs{reason="guarantee"} 3.0' in answer.read().decode()


@pytest.mark.limit(90, "starts the program, and waits for the jobs of three teams")
def test_two_teams_get_their_guarantees_next_to_a_third(stage: Stage, port: int) -> None:
    other_jobs = [stage.apply(f"other-{number}", 4, OTHER) for number in range(6)]
    stage.wait(lambda jobs: sum(jobs[key].whole for key in other_jobs) == 3)
    until(lambda: three_jobs_wait(port), "three jobs that wait because of guarantees")
    # Only the guarantees kept the units free: both teams are admitted, although others have waited longer.
    large, small = stage.apply("large", 8, FIRST), stage.apply("small", 4, SECOND)
    placed = stage.wait(lambda jobs: jobs[large].whole and jobs[small].whole)
    assert sum(placed[key].placed for key in other_jobs) == 3
    # Units that a team no longer uses stay free for this team.
    stage.finish(large)
    stage.apply("beyond", 8, SECOND)
    again = stage.apply("again", 4, FIRST)
    assert stage.wait(lambda jobs: jobs[again].whole)[again].whole
    standings = stage.job_placements()
    assert [name for (_, name), job in standings.items() if not job.nodes] == [
        *(name for (_, name), job in placed.items() if name.startswith("other") and not job.nodes),
        "beyond",
    ]
