"""The tiers of the suite: which test is in which, what each test and each tier may take, what each did take.

A pytest plugin, see ``tests/conftest.py``. CONTRIBUTING.md has the table of tiers.
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
"""Seconds by scope as last recorded (``--record-durations``), and what the calibration loop took then."""

SHORT = 1.0
"""Seconds of a scope that needs no place in the order: it fits in anywhere, and is not recorded."""

STALL = 2.0
"""Seconds for which these machines stand still by themselves, from time to time; no test fails for it."""

OWN_PLANES = {"claims", "fleets", "initscript", "kinds", "kueue", "manifests", "placement"}
"""Folders of tests/plane that have no use for the plane that all others share."""

MOST_SLOWNESS = 2.0
"""How many of its budgets a tier may take on the slowest machine."""

SLOWEST = 20


@dataclass(frozen=True)
class Tier:
    """What a tier's tests may take, in seconds on two cores that do nothing else.

    Attributes:
        limit: of one test, unless it is marked ``limit(seconds, why)``.
        budget: of all; None if the tier has none.
    """

    limit: float
    budget: float | None


TIERS = {"quick": Tier(1, 180), "plane": Tier(15, 540), "nodes": Tier(60, 540), "soak": Tier(3600, None)}


def tier_of(item: pytest.Item) -> str:
    """Returns the tier of a test: by its mark ``soak``, else by its folder."""
    if item.get_closest_marker("soak"):
        return "soak"
    folder = item.path.relative_to(HERE).parts[0]
    return folder if folder in TIERS else "quick"


def scope_of(nodeid: str) -> str:
    """Returns the tests that one process runs in order: a module's, or those that share a plane."""
    file = nodeid.partition("::")[0]
    tier, _, rest = file.removeprefix("tests/").partition("/")
    folder = rest.partition("/")[0]
    if tier == "plane":
        return f"tests/plane/{folder}" if folder in OWN_PLANES else "tests/plane"
    return f"tests/nodes/{folder}" if tier == "nodes" else file


def limit_of(item: pytest.Item) -> float:
    """Returns how many seconds a test may take where nothing else runs."""
    own = item.get_closest_marker("limit")
    if item.config.getoption("hypothesis_profile") == "soak":
        return TIERS["soak"].limit
    if own is None:
        return TIERS[tier_of(item)].limit
    seconds, why = own.args
    if not why:
        raise pytest.UsageError(f"{item.nodeid}: the mark limit says no reason")
    return float(seconds)


def slowness(processes: int = os.cpu_count() or 1) -> float:
    """Returns how much slower this machine is now than that of the recorded durations; at least 1."""
    reference = recorded().get("calibration", 0.0)
    return max(1.0, calibrated(processes) / reference) if reference else 1.0


def crowding() -> float:
    """Returns the number of processes that want a processor, for each processor; at least 1.

    The calibration loop is short, and may fall into a moment in which the others rest.
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


def calibrated(processes: int) -> float:
    """Seconds that a loop takes while as many processes run it as the suite has."""
    command = [sys.executable, "-S", "-c", LOOP]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return max(float(each.communicate()[0]) for each in running)


def recorded() -> dict[str, float]:
    """Returns what ``RECORDED`` holds; nothing where it is not written yet."""
    return json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}


class Timekeeper:
    """Gives each test its limit, puts long scopes first, and says at the end what took how long."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        worker = getattr(config, "workerinput", None)
        self._slowness: float = worker["slowness"] if worker else slowness()
        self._begin = time.monotonic()
        self._took: Counter[str] = Counter()
        self._tiers: set[str] = set()
        self.over = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Tells a process of pytest-xdist how slow the machine is."""
        node.workerinput["slowness"] = self._slowness  # type: ignore[attr-defined]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Marks tests with their tier and limit, and orders them by what their scope took when recorded."""
        known, slower = recorded(), max(self._slowness, crowding())
        for item in items:
            item.add_marker(tier_of(item))
            allowed = limit_of(item) * slower + STALL
            item.add_marker(pytest.mark.timeout(allowed, func_only=True))
        items.sort(key=lambda item: -known.get(scope_of(item.nodeid), 0.0))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Lets a wait end before its test's time is over: it says what it waited for, and what it saw."""
        mark = item.get_closest_marker("timeout")
        with waiting.at_most(mark.args[0] - STALL if mark else waiting.PATIENCE):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up what each test took, with its fixtures."""
        self._took[report.nodeid] += report.duration
        self._tiers |= TIERS.keys() & report.keywords.keys()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fails a tier that took longer than its budget, in CI."""
        if hasattr(self._config, "workerinput") or len(self._tiers) != 1:
            return
        (name,) = self._tiers
        budget, took = TIERS[name].budget, time.monotonic() - self._begin
        if budget is None or took <= budget:
            return
        # The machine may have become slower since the start.
        self._slowness = max(self._slowness, slowness())
        verdict = f"the tier {name} took {took:.0f} s; its budget is {budget:.0f} s"
        allowed = budget * min(self._slowness, MOST_SLOWNESS)
        self.over = f"{verdict}, on this machine now {allowed:.0f} s"
        if took > allowed and os.environ.get("CI") and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the slowest tests; records the durations where that was asked for."""
        terminalreporter.section(f"slowest {SLOWEST} tests, with their fixtures")
        for nodeid, seconds in self._took.most_common(SLOWEST):
            terminalreporter.write_line(f"{seconds:7.2f} s {nodeid}")
        if self.over:
            terminalreporter.write_line(self.over, red=True)
        if self._config.getoption("record_durations"):
            self._record()

    def _record(self) -> None:
        scopes: Counter[str] = Counter()
        for nodeid, seconds in self._took.items():
            scopes[scope_of(nodeid)] += seconds
        durations = recorded() | {scope: round(seconds, 1) for scope, seconds in scopes.items()}
        before = {
            scope: seconds
            for scope, seconds in durations.items()
            if seconds >= SHORT and (HERE.parent / scope).exists()
        }
        before["calibration"] = round(calibrated(os.cpu_count() or 1), 3)
        RECORDED.write_text(json.dumps(before, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--seed`` and ``--record-durations``."""
    group = parser.getgroup("tiers")
    group.addoption("--seed", type=int, default=17, help="of tests that leave something to chance")
    group.addoption("--record-durations", action="store_true", help=f"write {RECORDED.name}")


def pytest_configure(config: pytest.Config) -> None:
    """Begins to measure.

    Raises:
        UsageError: the soak would run in several processes; what measures needs the machine for itself.
    """
    chosen = config.getoption("markexpr") or ""
    if "soak" in chosen.replace("not soak", "") and config.getoption("numprocesses", None):
        raise pytest.UsageError("the soak measures, so it runs in one process: make test-soak")
    config.pluginmanager.register(Timekeeper(config), "timekeeper")


def _without_frames(failure: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    """Returns the same exception, as if it came from here."""
    try:
        raise failure.value.with_traceback(None)  # noqa: TRY301 - only what was raised has a traceback
    except BaseException:  # noqa: BLE001 - every error is reported
        return pytest.ExceptionInfo.from_current()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to a failed test that leaves something to chance the command that repeats it."""
    # Where a time limit ends Python 3.11 between two lines, a frame has none, and pytest would end with it.
    if call.excinfo and any(line is None for _, line in walk_tb(call.excinfo.tb)):
        call.excinfo = _without_frames(call.excinfo)
    made = yield
    if made.failed and "seed" in getattr(item, "fixturenames", ()):
        seed = item.config.getoption("seed")
        soak = " -m soak" if tier_of(item) == "soak" else ""
        made.sections.append(("repeat with", f".venv/bin/pytest '{item.nodeid}' --seed={seed}{soak}"))
    return made


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What chance begins with: the same in every run, another one in each of the soak."""
    return request.config.getoption("seed")
