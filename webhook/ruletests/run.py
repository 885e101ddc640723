"""Runs cases with a table, and writes the results as text and as JUnit XML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import SubElement

from common.junit import as_xml, testcase
from common.texts import printable
from webhook.engine import admit
from webhook.engine.outcome import RuleState
from webhook.objects.tree import Json
from webhook.preview.run import check_patch
from webhook.rows.policies import Mode
from webhook.rows.table import Table
from webhook.ruletests import messages
from webhook.ruletests.cases import Case
from webhook.ruletests.expected import CHECKS, comparable


@dataclass(frozen=True)
class Result:
    """The result of a case.

    Attributes:
        differences: How the outcome differs from the expectations, by key of `Expect`.
        fired: The names of the rules that fired, or would fire without shadow mode.
        after: The object for the snapshot of the case.
    """

    case: Case
    differences: Mapping[str, str]
    fired: frozenset[str]
    after: Json

    def __str__(self) -> str:
        text = "\n".join(f"{key}: {text.strip()}" for key, text in self.differences.items())
        return "".join(f"  {printable(line)}\n" for line in text.splitlines())


def run(table: Table, cases: Iterable[Case]) -> Sequence[Result]:
    """Runs cases with the function that admission calls in the cluster, and returns the results."""
    return [_run_case(table, case) for case in cases]


def _run_case(table: Table, case: Case) -> Result:
    outcome = admit(table, case.request, case.stored)
    check_patch(case.request.object, outcome)
    texts = {key: check(table, case, outcome) for key, check in CHECKS.items()}
    fired = frozenset(rule.name for rule in outcome.rules if rule.state is not RuleState.SKIPPED)
    differences = {key: text for key, text in texts.items() if text}
    return Result(case, differences, fired, comparable(outcome.after))


def new_snapshots(results: Iterable[Result]) -> Mapping[str, Mapping[str, Json]]:
    """Returns changed snapshot files by path. A case that fails for another reason keeps its snapshot."""
    paths = {result.case.snapshot_file for result in results if result.differences.keys() == {"snapshot"}}
    files: dict[str, dict[str, Json]] = {path: {} for path in sorted(paths)}
    for result in results:
        case, differences = result.case, result.differences.keys()
        snapshot = case.snapshot if differences - {"snapshot"} else result.after
        if case.snapshot_file in files and case.expect.snapshot and snapshot is not None:
            files[case.snapshot_file][case.name] = snapshot
    return files


def unfired_rules(table: Table, results: Iterable[Result], base: Table | None) -> Sequence[str]:
    """Returns the names of the active rules that fired in no case, except rules of the base table."""
    fired = frozenset[str]().union(*(result.fired for result in results))
    base_rules = base.rules if base else ()
    active_rules = (rule for rule in table.rules if rule.mode is not Mode.OFF and not rule.missing_value)
    return [rule.name for rule in active_rules if rule.name not in fired and rule not in base_rules]


def as_text(results: Sequence[Result]) -> str:
    """Returns the cases that failed, and how many cases ran and failed."""
    failed = [result for result in results if result.differences]
    failures = [f"FAIL {result.case.source}: {printable(result.case.name)}\n{result}" for result in failed]
    return "".join(failures) + messages.summary(len(results), len(failed))


def as_junit(results: Sequence[Result]) -> str:
    """Returns the results as JUnit XML."""
    cases = []
    for result in results:
        file, _, line = result.case.source.rpartition(":")
        cases.append(testcase(file, line, result.case.name))
        if result.differences:
            SubElement(cases[-1], "failure", message=", ".join(result.differences)).text = str(result)
    return as_xml("ultraserver-webhook rules test", cases)
