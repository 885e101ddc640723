"""Tests of the simulation of a trace, with an example that was calculated by hand."""

import csv
import random
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import pytest

from placement.observe.model import Pod
from testbed.experiment.trace import command, report
from testbed.experiment.trace.easy import Easy
from testbed.experiment.trace.fleet import Fleet
from testbed.experiment.trace.jobs import DAY, WEEK, Job, limited, read, shares, stretched, thinned
from testbed.experiment.trace.product import Product
from testbed.experiment.trace.simulate import Policy, Run, simulate

HOUR = 3600.0
COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")


def jobs(*rows: tuple[str, int, float, float]) -> list[Job]:
    """Returns jobs from rows of tenant, nodes, arrival and duration; the times are in hours."""
    return [
        Job(number, tenant, nodes, arrival * HOUR, hours * HOUR, hours * HOUR)
        for number, (tenant, nodes, arrival, hours) in enumerate(rows)
    ]


EXAMPLE = jobs(
    ("a", 4, 0.0, 10.0),  # has the first of two UltraServers until 10
    ("a", 2, 0.0, 4.0),  # has a pair of the second until 4
    ("b", 8, 1.0, 2.0),  # needs both: they are free at 10
    ("c", 2, 2.0, 3.0),  # fits with the second job, and ends at 5
    ("c", 4, 3.0, 4.0),  # fits from 5 to 9
    ("c", 1, 3.0, 8.0),  # would end after 10
)
"""With EASY, the fifth job starts at 5 and delays no job. The third starts at 10, and the last at 12."""


def hours(starts: dict[int, float]) -> list[float]:
    """Returns the starts in hours, in the order of the jobs' numbers."""
    return [starts[number] / HOUR for number in sorted(starts)]


def run_easy(trace_jobs: list[Job], servers: int = 2, **options: float) -> Run:
    fleet = Fleet(servers)
    return simulate(trace_jobs, Easy(fleet), fleet, **options)


def test_easy_backfills_jobs_that_do_not_delay_the_reservation() -> None:
    """Protects the comparison of the product with EASY."""
    assert hours(run_easy(EXAMPLE).starts) == [0, 0, 10, 2, 5, 12]


def test_limits_that_are_too_long_keep_a_job_from_backfill() -> None:
    """Protects ``--limits``: the fifth job may run until 17, so it waits until the third has ended."""
    trace_jobs = [*EXAMPLE[:2], *limited(EXAMPLE[2:], "times3")]
    assert hours(run_easy(trace_jobs).starts) == [0, 0, 10, 12, 12, 12]


def test_waits_and_utilisation_are_counted() -> None:
    """Protects the figures: from hour 1 to hour 12, jobs wait, so these hours are measured."""
    run = run_easy(EXAMPLE)
    result = report.figures(EXAMPLE, run)
    # Only jobs that arrive after the first tenth, hour 0.3, are measured: they wait 9, 0, 2 and 9 hours.
    assert result.waits == {1: 9.0, 2: 0.0, 4: 2.0, 8: 9.0}
    assert result.by_nodes == pytest.approx((9 * 8 + 0 * 2 + 2 * 4 + 9 * 1) / 15)
    # Busy nodes from hour 1: 6, from 2: 8, from 4: 6, from 5: 8, from 9: 4, from 10 to 12: 8.
    assert result.utilisation == pytest.approx((6 * 1 + 8 * 2 + 6 * 1 + 8 * 4 + 4 * 1 + 8 * 2) / (8 * 11))
    # In the second UltraServer, a pair is free from 1 to 2 and from 4 to 5, and all nodes from 9 to 10.
    assert result.fragmented == pytest.approx((2 + 2) / 11)
    assert result.reserved == pytest.approx((2 + 2 + 4) / 11)
    assert (result.longest, result.unplaced) == (0.0, 0)


def test_the_product_starts_all_jobs_and_their_nodes_become_free() -> None:
    """Protects that the decision of the product runs, and that it uses the limits of jobs."""
    for limits, fifth in (("known", 5), ("none", 12)):
        trace_jobs = limited(EXAMPLE, limits)
        fleet = Fleet(2)
        run = simulate(trace_jobs, Product(2), fleet)
        assert hours(run.starts)[2] == 10
        assert hours(run.starts)[4] == fifth
        assert len(run.starts) == 6
        assert fleet.count == fleet.nodes


def test_leaving_out_jobs_that_certainly_wait_does_not_change_the_starts() -> None:
    """Protects an optimisation: the decision sees only jobs that may start, and the same jobs start."""

    class AllCandidates(Product):
        def _candidates(self, tenant_and_nodes: tuple[str, int]) -> Iterable[list[Pod]]:
            return self._waiting[tenant_and_nodes].values()

    chance = random.Random(1)  # noqa: S311 - the same numbers in each run
    rows = [
        (chance.choice("abc"), chance.choice((1, 1, 1, 2, 4, 8)), index / 20, chance.uniform(0.1, 2.0))
        for index in range(60)
    ]
    assert (
        simulate(jobs(*rows), AllCandidates(3), Fleet(3)).starts
        == simulate(jobs(*rows), Product(3), Fleet(3)).starts
    )


@pytest.mark.parametrize("policy", command.POLICIES)
def test_a_sick_node_breaks_its_units(policy: str) -> None:
    """Protects ``--sick``: the first UltraServer has one usable pair left, and no job of four runs there."""
    trace_jobs = jobs(("a", 4, 0.0, 1.0), ("a", 4, 0.0, 1.0), ("b", 2, 0.0, 5.0), ("b", 1, 0.1, 5.0))
    fleet = Fleet(2, {0})
    run = simulate(trace_jobs, command.POLICIES[policy](fleet, 2, {0}, {}), fleet)
    assert hours(run.starts) == [0, 1, 0, 0.1]


def test_a_guarantee_keeps_a_tenants_ultraserver_free() -> None:
    """Protects ``--guarantees``: the second job of tenant a waits, and the job of tenant b starts at once."""
    rows = (("a", 4, 0.0, 5.0), ("a", 4, 0.0, 5.0), ("b", 4, 1.0, 1.0))
    guaranteed, shared = (
        simulate(jobs(*rows), Product(2, (), owned), Fleet(2)).starts for owned in ({"b": 1}, {})
    )
    assert hours(guaranteed) == [0, 5, 1]
    assert hours(shared) == [0, 0, 5]


def test_a_policy_that_splits_a_job_is_refused() -> None:
    """Protects the comparison: a policy that breaks the rules of units gives no figures."""

    class Splits(Easy):
        def decide(self, now: float) -> list[tuple[Job, list[int]]]:
            return [(job, [1, 2]) for job, _ in super().decide(now)]

    fleet = Fleet(2)
    policy: Policy = Splits(fleet)
    with pytest.raises(ValueError, match=r"job 0 of 2 nodes is not whole on \[1, 2\]"):
        simulate(jobs(("a", 2, 0.0, 1.0)), policy, fleet)


def test_a_pause_between_decisions_delays_starts_only() -> None:
    """Protects ``--pause``: events keep their times, and the next decision is at most one pause later."""
    trace_jobs = jobs(("a", 4, 0.0, 1.0), ("a", 4, 0.001, 1.0), ("a", 8, 0.999, 1.0))
    run = run_easy(trace_jobs, pause=60.0)
    # Decisions are at 0, at 60 for the second job, and each minute from 3596.4 s, when the third job arrives.
    # The third job has room from 3660 s.
    assert [run.starts[number] for number in range(3)] == pytest.approx([0, 60, 3596.4 + 120])
    last = run_easy(jobs(("a", 4, 0.0, 1.0), ("a", 4, 0.999, 1.0)), servers=1, pause=60.0)
    assert last.starts[1] == pytest.approx(0.999 * HOUR + 60)


def write_trace(path: Path, rows: list[tuple[str, float, int, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows((at, seconds, nodes, seconds * nodes, tenant) for at, seconds, nodes, tenant in rows)
    return path


def test_the_weeks_of_a_trace_are_cut_out_and_stretched(tmp_path: Path) -> None:
    """Protects the offered load: a week is stretched until its jobs give this load."""
    rows = [
        ("2017-09-17 23:59:59", 10.0, 1, "early"),
        ("2017-09-26 00:00:00", WEEK, 2, "b"),
        ("2017-09-19 00:00:00", 30 * DAY, 4, "a"),
        ("2017-11-13 00:00:00", 10.0, 1, "late"),
    ]
    result = read(write_trace(tmp_path / "trace.csv", rows))
    assert [(job.number, job.tenant, job.arrival, job.duration) for job in result] == [
        (0, "a", DAY, WEEK),
        (1, "b", WEEK + DAY, WEEK),
    ]
    # On 8 nodes at a load of 0.5, the first week lasts a week, and the second lasts half a week.
    assert [job.arrival for job in stretched(result, 8, 0.5)] == pytest.approx([DAY, WEEK + DAY / 2])


def test_the_same_seed_draws_the_same_jobs() -> None:
    """Protects that figures can be reproduced."""
    trace_jobs = jobs(*[("a", 1, float(hour), 1.0) for hour in range(1000)])
    assert thinned(trace_jobs, 1) == thinned(trace_jobs, 1) != thinned(trace_jobs, 2)
    assert 400 < len(thinned(trace_jobs, 1)) < 600


def test_the_share_of_a_tenant_follows_its_work() -> None:
    """Protects the comparison with a tenant's own share; a small tenant has one UltraServer."""
    trace_jobs = jobs(("large", 4, 0.0, 70.0), ("middle", 4, 0.0, 29.0), ("small", 1, 0.0, 1.0))
    assert shares(trace_jobs, 8) == {"large": 5, "middle": 2, "small": 1}


def test_the_command_prints_a_table_and_draws_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Protects the command, with a trace of one day, all policies, shares of tenants and a picture."""
    rows = [
        (f"2017-09-18 {index % 24:02}:{index % 60:02}:00", 600.0 * (1 + index % 7), size, "abc"[index % 3])
        for index, size in enumerate([1, 2, 4, 8, 1, 1, 16, 4] * 3)
    ]
    trace, picture = write_trace(tmp_path / "trace.csv", rows), tmp_path / "fleet.svg"
    arguments = [
        "--trace",
        str(trace),
        "--ultraservers",
        "6",
        "--share",
        "1",
        "--tenants",
        "--svg",
        str(picture),
    ]
    options = ["--policy", *command.POLICIES, "--sick", "1", "--seed", "1", "2"]
    assert command.main([*arguments, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    for policy in command.POLICIES:
        begin = lines.index(f"policy {policy}, load 0.9, limits known, 1 sick")
        assert [line.split("|")[1].strip() for line in lines[begin + 3 : begin + 6]] == ["1", "2", "mean"]
        tenants = lines[begin + 6 :]
        assert {"| a ", "| b ", "| c "} <= {line[:4] for line in tenants}
    assert ET.parse(picture).getroot().tag.endswith("svg")  # noqa: S314 - the file is from this test
