"""The simulation of a trace, by an example that is worked out by hand."""

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
    """Returns jobs by tenant, nodes, arrival and duration, both in hours; their limits are known."""
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
"""By EASY: the fifth starts at 5 and delays nothing, the third at 10, and the last when that has ended."""


def hours(by_size: dict[int, float]) -> list[float]:
    return [by_size[number] / HOUR for number in sorted(by_size)]


def easily(given: list[Job], servers: int = 2, **options: float) -> Run:
    fleet = Fleet(servers)
    return simulate(given, Easy(fleet), fleet, **options)


def test_easy_backfills_what_does_not_delay_the_reservation() -> None:
    """Protects the reference that the product is compared with."""
    assert hours(easily(EXAMPLE).starts) == [0, 0, 10, 2, 5, 12]


def test_limits_that_are_too_long_keep_a_job_from_backfill() -> None:
    """Protects ``--limits``: the fifth may end at 17, so it waits behind the third as well."""
    given = [*EXAMPLE[:2], *limited(EXAMPLE[2:], "times3")]
    assert hours(easily(given).starts) == [0, 0, 10, 12, 12, 12]


def test_waits_and_utilisation_are_counted() -> None:
    """Protects the figures: jobs wait from 1 to 12, and the nodes that work meanwhile are added up."""
    run = easily(EXAMPLE)
    result = report.figures(EXAMPLE, run)
    # After the first tenth of the time, from 0.3: the third to the last wait 9, 0, 2 and 9 hours.
    assert result.waits == {1: 9.0, 2: 0.0, 4: 2.0, 8: 9.0}
    assert result.by_nodes == pytest.approx((9 * 8 + 0 * 2 + 2 * 4 + 9 * 1) / 15)
    # At 1: 6 nodes; 2: 8; 4: 6; 5: 8; 9: 4; 10 to 12: 8.
    assert result.utilisation == pytest.approx((6 * 1 + 8 * 2 + 6 * 1 + 8 * 4 + 4 * 1 + 8 * 2) / (8 * 11))
    # A pair of the second UltraServer is free from 1 to 2 and from 4 to 5; the whole from 9 to 10, reserved.
    assert result.fragmented == pytest.approx((2 + 2) / 11)
    assert result.reserved == pytest.approx((2 + 2 + 4) / 11)
    assert (result.longest, result.unplaced) == (0.0, 0)


def test_the_product_decides_and_jobs_leave() -> None:
    """Protects that the real decision runs, and what it takes for a job's limit."""
    for limits, fifth in (("known", 5), ("none", 12)):
        given = limited(EXAMPLE, limits)
        fleet = Fleet(2)
        run = simulate(given, Product(2), fleet)
        assert hours(run.starts)[2] == 10
        assert hours(run.starts)[4] == fifth
        assert len(run.starts) == 6
        assert fleet.count == fleet.nodes


def test_jobs_that_certainly_wait_are_left_out_and_nothing_changes() -> None:
    """Protects what makes a run cheap: of all jobs, and of those that may start, the same ones start."""

    class All(Product):
        def _candidates(self, alike: tuple[str, int]) -> Iterable[list[Pod]]:
            return self._waiting[alike].values()

    chance = random.Random(1)  # noqa: S311 - the same each time
    rows = [
        (chance.choice("abc"), chance.choice((1, 1, 1, 2, 4, 8)), index / 20, chance.uniform(0.1, 2.0))
        for index in range(60)
    ]
    assert (
        simulate(jobs(*rows), All(3), Fleet(3)).starts == simulate(jobs(*rows), Product(3), Fleet(3)).starts
    )


@pytest.mark.parametrize("policy", command.POLICIES)
def test_a_sick_node_breaks_its_units(policy: str) -> None:
    """Protects ``--sick``: of the first UltraServer one pair is left, and no job of four gets it."""
    given = jobs(("a", 4, 0.0, 1.0), ("a", 4, 0.0, 1.0), ("b", 2, 0.0, 5.0), ("b", 1, 0.1, 5.0))
    fleet = Fleet(2, {0})
    run = simulate(given, command.POLICIES[policy](fleet, 2, {0}, {}), fleet)
    assert hours(run.starts) == [0, 1, 0, 0.1]


def test_a_guarantee_keeps_a_tenants_ultraserver_free() -> None:
    """Protects ``--guarantees``: the second job of another tenant waits, and the tenant's starts at once."""
    rows = (("a", 4, 0.0, 5.0), ("a", 4, 0.0, 5.0), ("b", 4, 1.0, 1.0))
    kept, free = (simulate(jobs(*rows), Product(2, (), owned), Fleet(2)).starts for owned in ({"b": 1}, {}))
    assert hours(kept) == [0, 5, 1]
    assert hours(free) == [0, 0, 5]


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
    """Protects ``--pause``: events keep their times, and the decision after them comes at most so late."""
    given = jobs(("a", 4, 0.0, 1.0), ("a", 4, 0.001, 1.0), ("a", 8, 0.999, 1.0))
    run = easily(given, pause=60.0)
    # Decisions: at 0; at 60, for the second; and each minute from 3596.4 s, when the third arrives, which
    # has room from 3660 s.
    assert [run.starts[number] for number in range(3)] == pytest.approx([0, 60, 3596.4 + 120])
    last = easily(jobs(("a", 4, 0.0, 1.0), ("a", 4, 0.999, 1.0)), servers=1, pause=60.0)
    assert last.starts[1] == pytest.approx(0.999 * HOUR + 60)


def written(path: Path, rows: list[tuple[str, float, int, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows((at, seconds, nodes, seconds * nodes, tenant) for at, seconds, nodes, tenant in rows)
    return path


def test_the_weeks_of_a_trace_are_cut_out_and_stretched(tmp_path: Path) -> None:
    """Protects the offered load: each week lasts as long as its jobs need at that load."""
    rows = [
        ("2017-09-17 23:59:59", 10.0, 1, "early"),
        ("2017-09-26 00:00:00", WEEK, 2, "b"),
        ("2017-09-19 00:00:00", 30 * DAY, 4, "a"),
        ("2017-11-13 00:00:00", 10.0, 1, "late"),
    ]
    result = read(written(tmp_path / "trace.csv", rows))
    assert [(job.number, job.tenant, job.arrival, job.duration) for job in result] == [
        (0, "a", DAY, WEEK),
        (1, "b", WEEK + DAY, WEEK),
    ]
    # Of 8 nodes at a load of 0.5 the first week is full after a week, the second after half of one.
    assert [job.arrival for job in stretched(result, 8, 0.5)] == pytest.approx([DAY, WEEK + DAY / 2])


def test_the_same_seed_draws_the_same_jobs() -> None:
    """Protects that a figure can be had again."""
    given = jobs(*[("a", 1, float(hour), 1.0) for hour in range(1000)])
    assert thinned(given, 1) == thinned(given, 1) != thinned(given, 2)
    assert 400 < len(thinned(given, 1)) < 600


def test_own_shares_follow_the_work() -> None:
    """Protects the comparison with a tenant's own share; a small tenant has one UltraServer."""
    given = jobs(("large", 4, 0.0, 70.0), ("middle", 4, 0.0, 29.0), ("small", 1, 0.0, 1.0))
    assert shares(given, 8) == {"large": 5, "middle": 2, "small": 1}


def test_the_command_prints_a_table_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Protects the command: a made-up trace of a day, tenants that share, and a picture that is XML."""
    rows = [
        (f"2017-09-18 {index % 24:02}:{index % 60:02}:00", 600.0 * (1 + index % 7), size, "abc"[index % 3])
        for index, size in enumerate([1, 2, 4, 8, 1, 1, 16, 4] * 3)
    ]
    trace, drawn = written(tmp_path / "trace.csv", rows), tmp_path / "fleet.svg"
    arguments = [
        "--trace",
        str(trace),
        "--ultraservers",
        "6",
        "--share",
        "1",
        "--tenants",
        "--svg",
        str(drawn),
    ]
    more = ["--policy", *command.POLICIES, "--sick", "1", "--seed", "1", "2"]
    assert command.main([*arguments, *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    for policy in command.POLICIES:
        begin = lines.index(f"policy {policy}, load 0.9, limits known, 1 sick")
        assert [line.split("|")[1].strip() for line in lines[begin + 3 : begin + 6]] == ["1", "2", "mean"]
        tenants = lines[begin + 6 :]
        assert {"| a ", "| b ", "| c "} <= {line[:4] for line in tenants}
    assert ET.parse(drawn).getroot().tag.endswith("svg")  # noqa: S314 - written a moment ago
