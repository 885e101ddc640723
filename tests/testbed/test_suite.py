"""Tests of the suite's own rules: imports, scopes, time limits and required programs."""

import re

import pytest

from tests import tiers

pytest_plugins = ["pytester"]


TEST_MODULE = re.compile(
    r"^\s*(?:from|import) tests(?:\.\w+)*(?:\.test_\w+| import .*\btest_\w+)", re.MULTILINE
)


def test_no_test_module_imports_another() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in tiers.HERE.rglob("*.py")}
    imports = {str(path.relative_to(tiers.HERE)): TEST_MODULE.findall(text) for path, text in texts.items()}
    assert not {path: lines for path, lines in imports.items() if lines}, (
        "move shared functions into a module that is not a test module"
    )


def test_recorded_durations_are_of_scopes_that_exist() -> None:
    names = tiers.recorded_durations().keys() - {"calibration"}
    assert {name for name in names if not (tiers.HERE.parent / name).exists()} == set()


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/engine/test_merge.py::test_a", "tests/engine/test_merge.py"),
        ("tests/plane/kueue/test_jobs.py::test_a[x::y/z]", "tests/plane/kueue"),
        ("tests/plane/test_readme.py::test_a", "tests/plane"),
        ("tests/plane/guard/test_pods.py::test_a", "tests/plane"),
        ("tests/nodes/install/test_install.py::test_a", "tests/nodes/install"),
    ],
)
def test_tests_that_share_a_plane_are_run_by_one_process(nodeid: str, scope: str) -> None:
    assert tiers.scope_of(nodeid) == scope


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A temporary suite with the plugin, on a machine that is as fast as recorded and never stalls."""
    monkeypatch.setattr(tiers, "HERE", pytester.path / "tests")
    monkeypatch.setattr(tiers, "RECORDED", pytester.path / "durations.json")
    monkeypatch.setattr(tiers, "STALL", 0.0)
    monkeypatch.setattr(tiers, "calibration_seconds", lambda _: 0.1)
    monkeypatch.setattr(tiers, "load_factor", lambda: 1.0)
    pytester.makeini(
        "[pytest]\nmarkers =\n  quick: q\n  soak: s\n  limit(seconds, why): l\n  program(names): p\n"
    )
    pytester.mkdir("tests")
    return pytester


def run(suite: pytest.Pytester, text: str, *args: str) -> pytest.RunResult:
    """Runs a test module of the temporary suite, in this process."""
    (suite.path / "tests" / "test_it.py").write_text(text, encoding="utf-8")
    return suite.runpytest_inprocess("-p", "tests.tiers", "-p", "no:cacheprovider", "tests", *args)


WAITS = """
import threading, pytest
{mark}
def test_waits():
    threading.Event().wait(1.3)
"""


@pytest.mark.limit(3, "waits for longer than the limit of a tier")
def test_a_test_fails_after_the_limit_of_its_tier(suite: pytest.Pytester) -> None:
    result = run(suite, WAITS.format(mark=""))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Timeout (>1.0s)*"])


@pytest.mark.limit(3, "waits for longer than the limit of a tier")
@pytest.mark.parametrize(("mark", "load_factor"), [("@pytest.mark.limit(5, 'waits')", 1.0), ("", 2.0)])
def test_a_test_may_take_longer_with_a_reason_or_on_a_busy_machine(
    mark: str, load_factor: float, suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "load_factor", lambda: load_factor)
    run(suite, WAITS.format(mark=mark)).assert_outcomes(passed=1)


@pytest.mark.limit(3, "waits for longer than the limit of a tier")
def test_a_wait_ends_before_the_limit_of_its_test_and_reports_the_last_value(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "STALL", 0.5)
    text = """
from testbed.waiting import until
def test_waits():
    until(list, "three workers")
"""
    run(suite, text).stdout.fnmatch_lines(["*NotYetError: waited 1 s for three workers; last seen: []*"])


@pytest.mark.parametrize(
    ("machine", "ci", "outcome"),
    [((1.0, 2.0), "true", 1), ((1.0, 2.0), "", 0), ((1e6, 1e6), "true", 0), ((1e6, 2.0), "true", 1)],
    ids=["as-fast-as-recorded", "not-in-ci", "slow", "slower-than-the-maximum"],
)
def test_a_tier_over_its_budget_fails_in_ci_unless_the_machine_is_slow(
    suite: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    machine: tuple[float, float],
    ci: str,
    outcome: int,
) -> None:
    slowness, max_slowness = machine
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(tiers, "MAX_SLOWNESS", max_slowness)
    monkeypatch.setattr(tiers, "slowness", lambda: slowness)
    monkeypatch.setitem(tiers.TIERS, "quick", tiers.Tier(1, 0.001))
    result = run(suite, "def test_quick(): pass\n")
    assert result.ret == outcome
    result.stdout.fnmatch_lines(["*the tier quick took*its budget is*"])


@pytest.mark.parametrize(("ci", "outcome"), [("true", "errors"), ("", "skipped")])
def test_a_program_that_is_not_installed_fails_its_test_in_ci(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: str
) -> None:
    monkeypatch.setenv("CI", ci)
    text = "import pytest\n@pytest.mark.program('no-such-program')\ndef test_quick(): pass\n"
    run(suite, text, "-p", "tests.needs").assert_outcomes(**{outcome: 1})
