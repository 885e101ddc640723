"""Teams with guarantees, and one without, on the real scheduler."""

from collections.abc import Iterator

import pytest

from contract.keys import SERVER_4
from kubectl_ultraserver.listing import RULES
from kubectl_ultraserver.objects import NAME
from testbed.experiment.stage import TEAMS, Stage
from testbed.plane.plugin import eventually

FIRST, SECOND, OTHER = TEAMS
ROWS = f"""
guarantees:
  - {{namespaces: {FIRST}, unit: {SERVER_4}, count: 2}}
  - {{namespaces: {SECOND}, unit: {SERVER_4}, count: 1}}
"""


@pytest.fixture
def guaranteed(stage: Stage) -> Iterator[Stage]:
    """The stage with the program, whose table guarantees three of six UltraServers."""
    assert stage.rules
    table = stage.rules.read_text(encoding="utf-8")
    stage.rules.write_text(table + ROWS, encoding="utf-8")
    stage.start_program()
    # The plugin reads the table where an installation has it.
    rules = {"metadata": {"name": f"{NAME}-rules"}, "data": {"rules.yaml": table + ROWS}}
    stage.api.create(RULES.rpartition("/")[0], {"apiVersion": "v1", "kind": "ConfigMap", **rules})
    yield stage
    stage.api.delete(RULES)
    stage.rules.write_text(table, encoding="utf-8")


@pytest.mark.limit(90, "starts the program, and waits for the jobs of three teams")
def test_two_teams_have_what_they_are_guaranteed_beside_a_third(guaranteed: Stage) -> None:
    stage = guaranteed
    others = [stage.apply(f"other-{number}", 4, OTHER) for number in range(6)]
    stage.wait(lambda jobs: sum(jobs[key].whole for key in others) == 3)
    inside = stage.plane.kubectl.in_namespace(OTHER)
    queue = eventually(inside, ["queue"], lambda queue: len(queue["jobs"]) == 3)
    assert [job["reason"] for job in queue["jobs"]] == ["guarantee"] * 3
    # Only the guarantees kept the units free: both teams are admitted, although others have waited longer.
    large, small = stage.apply("large", 8, FIRST), stage.apply("small", 4, SECOND)
    placed = stage.wait(lambda jobs: jobs[large].whole and jobs[small].whole)
    assert sum(placed[key].placed for key in others) == 3
    # What a team no longer uses stays free for it.
    stage.finish(large)
    stage.apply("beyond", 8, SECOND)
    again = stage.apply("again", 4, FIRST)
    assert stage.wait(lambda jobs: jobs[again].whole)[again].whole
    still = stage.standings()
    assert [name for (_, name), job in still.items() if not job.nodes] == [
        *(name for (_, name), job in placed.items() if name.startswith("other") and not job.nodes),
        "beyond",
    ]
