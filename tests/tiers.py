"""The tiers of the suite, their time limits, and the order of tests by recorded durations.

This module is a pytest plugin, see ``tests/conftest.py``. CONTRIBUTING.md has the table of tiers.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb

import pytest

from testbed import waiting

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "durations.json"
"""The recorded seconds of each scope and of the calibration loop (``--record-durations``)."""

SHORT = 1.0
"""Scopes that take less than this many seconds are not recorded, because their order does not matter."""

STALL = 2.0
"""Each test gets this many additional seconds, because test machines stall from time to time."""

OWN_PLANES = {"claims", "fleets", "initscript", "kinds", "kueue", "manifests", "placement"}
"""Folders of tests/plane with their own control plane. The other folders share a control plane."""

MAX_SLOWNESS = 2.0
"""The maximum time of a tier on a slow machine, as a multiple of its budget."""

SLOWEST = 20
"""The number of slow tests in the summary."""


@dataclass(frozen=True)
class Tier:
    """The time limits of a tier's tests, in seconds on two idle cores.

    Attributes:
        limit: The limit of one test, unless it is marked ``limit(seconds, why)``.
        budget: The limit of all tests of the tier together; None if there is no limit.
    """

    limit: float
    budget: float | None


TIERS = {"quick": Tier(1, 180), "plane": Tier(15, 540), "nodes": Tier(60, 540), "soak": Tier(3600, None)}


def tier_of(item: pytest.Item) -> str:
    """Returns the tier of a test. The mark ``soak`` decides, otherwise the folder."""
    if item.get_closest_marker("soak"):
        return "soak"
    folder = item.path.relative_to(HERE).parts[0]
    return folder if folder in TIERS else "quick"


def scope_of(nodeid: str) -> str:
    """Returns the scope of a test: its module, or the folder of the tests that share a control plane."""
    file = nodeid.partition("::")[0]
    tier, _, rest = file.removeprefix("tests/").partition("/")
    folder = rest.partition("/")[0]
    if tier == "plane":
        return f"tests/plane/{folder}" if folder in OWN_PLANES else "tests/plane"
    return f"tests/nodes/{folder}" if tier == "nodes" else file


def limit_of(item: pytest.Item) -> float:
    """Returns the maximum seconds of a test on an idle machine."""
    mark = item.get_closest_marker("limit")
    if item.config.getoption("hypothesis_profile") == "soak":
        return TIERS["soak"].limit
    if mark is None:
        return TIERS[tier_of(item)].limit
    seconds, why = mark.args
    if not why:
        raise pytest.UsageError(f"{item.nodeid}: the mark limit has no reason")
    return float(seconds)


def slowness(processes: int = os.cpu_count() or 1) -> float:
    """Returns how many times slower this machine is than when the durations were recorded; at least 1."""
    reference = recorded_durations().get("calibration", 0.0)
    return max(1.0, calibration_seconds(processes) / reference) if reference else 1.0


def load_factor() -> float:
    """Returns 1 plus the load average per processor.

    The calibration loop is short, and may run in a moment in which other processes pause.
    """
    processors = os.cpu_count() or 1
    return (os.getloadavg()[0] + processors) / processors


LOOP = """
import time
begin = time.perf_counter()
for number in range(2_000_000):
    number * number
print(time.perf_counter() - begin)
"""


def calibration_seconds(processes: int) -> float:
    """Returns the seconds of the calibration loop while this number of processes run it at once."""
    command = [sys.executable, "-S", "-c", LOOP]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return max(float(child.communicate()[0]) for child in children)


def recorded_durations() -> dict[str, float]:
    """Returns the durations in the file ``RECORDED``; empty if the file does not exist."""
    return json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}


class Timekeeper:
    """Sets the time limit of each test, runs long scopes first, and reports the durations at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        worker = getattr(config, "workerinput", None)
        self._slowness: float = worker["slowness"] if worker else slowness()
        self._begin = time.monotonic()
        self._seconds: Counter[str] = Counter()
        self._tiers: set[str] = set()
        self.over_budget = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Passes the slowness of the machine to a process of pytest-xdist."""
        node.workerinput["slowness"] = self._slowness  # type: ignore[attr-defined]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Marks tests with their tier and time limit, and sorts them: the longest recorded scope is first."""
        durations, factor = recorded_durations(), max(self._slowness, load_factor())
        for item in items:
            item.add_marker(tier_of(item))
            allowed = limit_of(item) * factor + STALL
            item.add_marker(pytest.mark.timeout(allowed, func_only=True))
        items.sort(key=lambda item: -durations.get(scope_of(item.nodeid), 0.0))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Ends a wait before the time limit of its test, so that the error describes the wait."""
        mark = item.get_closest_marker("timeout")
        with waiting.limit_waits(mark.args[0] - STALL if mark else waiting.PATIENCE):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up the time of each test and of its fixtures."""
        self._seconds[report.nodeid] += report.duration
        self._tiers |= TIERS.keys() & report.keywords.keys()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In CI, fails a tier that took longer than its budget."""
        if hasattr(self._config, "workerinput") or len(self._tiers) != 1:
            return
        (name,) = self._tiers
        budget, took = TIERS[name].budget, time.monotonic() - self._begin
        if budget is None or took <= budget:
            return
        # The machine may be slower now than at the start.
        self._slowness = max(self._slowness, slowness())
        verdict = f"the tier {name} took {took:.0f} s; its budget is {budget:.0f} s"
        allowed = budget * min(self._slowness, MAX_SLOWNESS)
        self.over_budget = f"{verdict}, on this machine now {allowed:.0f} s"
        if took > allowed and os.environ.get("CI") and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the slowest tests, and records the durations if ``--record-durations`` is set."""
        terminalreporter.section(f"slowest {SLOWEST} tests, with their fixtures")
        for nodeid, seconds in self._seconds.most_common(SLOWEST):
            terminalreporter.write_line(f"{seconds:7.2f} s {nodeid}")
        if self.over_budget:
            terminalreporter.write_line(self.over_budget, red=True)
        if self._config.getoption("record_durations"):
            self._record()

    def _record(self) -> None:
        scopes: Counter[str] = Counter()
        for nodeid, seconds in self._seconds.items():
            scopes[scope_of(nodeid)] += seconds
        durations = recorded_durations() | {scope: round(seconds, 1) for scope, seconds in scopes.items()}
        long_scopes = {
            scope: seconds
            for scope, seconds in durations.items()
            if seconds >= SHORT and (HERE.parent / scope).exists()
        }
        long_scopes["calibration"] = round(calibration_seconds(os.cpu_count() or 1), 3)
        RECORDED.write_text(json.dumps(long_scopes, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--seed`` and ``--record-durations``."""
    group = parser.getgroup("tiers")
    group.addoption("--seed", type=int, default=17, help="seed of tests with random choices")
    group.addoption("--record-durations", action="store_true", help=f"write {RECORDED.name}")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the time keeper.

    Raises:
        UsageError: The soak would run in several processes, which distorts its measurements.
    """
    chosen = config.getoption("markexpr") or ""
    if "soak" in chosen.replace("not soak", "") and config.getoption("numprocesses", None):
        raise pytest.UsageError("the soak measures, so it runs in one process: make test-soak")
    config.pluginmanager.register(Timekeeper(config), "timekeeper")


def _without_frames(failure: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    """Returns the exception of a failure without its traceback."""
    try:
        raise failure.value.with_traceback(None)  # noqa: TRY301 - only what was raised has a traceback
    except BaseException:  # noqa: BLE001 - every error is reported
        return pytest.ExceptionInfo.from_current()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a failed test with a seed the command that repeats the test."""
    # If a time limit interrupts Python 3.11 between two lines, a frame has no line, and pytest would fail.
    if call.excinfo and any(line is None for _, line in walk_tb(call.excinfo.tb)):
        call.excinfo = _without_frames(call.excinfo)
    report = yield
    if report.failed and "seed" in getattr(item, "fixturenames", ()):
        seed = item.config.getoption("seed")
        soak = " -m soak" if tier_of(item) == "soak" else ""
        report.sections.append(("repeat with", f".venv/bin/pytest '{item.nodeid}' --seed={seed}{soak}"))
    return report


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of random choices: the default of ``--seed``, except in the soak, which sets new seeds."""
    return request.config.getoption("seed")
