"""Runs cases with a table, and reports the results as text for people and for CI."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import SubElement

from common.junit import as_xml, testcase
from common.texts import printable
from webhook.engine import admit
from webhook.engine.outcome import State
from webhook.objects.tree import Json
from webhook.preview.run import check_patch
from webhook.rows.policies import Mode
from webhook.rows.table import Table
from webhook.ruletests.cases import Case
from webhook.ruletests.expected import CHECKS, comparable


@dataclass(frozen=True)
class Result:
    """The result of a case.

    Attributes:
        differences: How the outcome differs, by key of the expectation.
        fired: The rules that fired, or would have in shadow.
        after: The object for the snapshot.
    """

    case: Case
    differences: Mapping[str, str]
    fired: frozenset[str]
    after: Json

    def __str__(self) -> str:
        text = "\n".join(f"{key}: {text.strip()}" for key, text in self.differences.items())
        return "".join(f"  {printable(line)}\n" for line in text.splitlines())


def run(table: Table, cases: Iterable[Case]) -> Sequence[Result]:
    """Runs cases: each object goes through the functions that the cluster calls."""
    return [_one(table, case) for case in cases]


def _one(table: Table, case: Case) -> Result:
    outcome = admit(table, case.request, case.stored)
    check_patch(case.request.object, outcome)
    messages = {key: check(table, case, outcome) for key, check in CHECKS.items()}
    fired = frozenset(rule.name for rule in outcome.rules if rule.state is not State.SKIPPED)
    differences = {key: text for key, text in messages.items() if text}
    return Result(case, differences, fired, comparable(outcome.after))


def outdated(results: Iterable[Result]) -> Mapping[str, Mapping[str, Json]]:
    """Returns the files of snapshots to write, by path, for cases in which only the snapshot differs."""
    new = {result.case.snapshots for result in results if result.differences.keys() == {"snapshot"}}
    files: dict[str, dict[str, Json]] = {name: {} for name in sorted(new)}
    for result in results:
        case = result.case
        kept = case.snapshot if len(result.differences) > ("snapshot" in result.differences) else result.after
        if case.snapshots in files and case.expect.snapshot and kept is not None:
            files[case.snapshots][case.name] = kept
    return files


def never_fired(table: Table, results: Iterable[Result], below: Table | None) -> Sequence[str]:
    """Returns the rules that can fire, fired in no case, and differ from those of the table below."""
    fired = frozenset[str]().union(*(result.fired for result in results))
    known = below.rules if below else ()
    able = (rule for rule in table.rules if rule.mode is not Mode.OFF and not rule.missing_value)
    return [rule.name for rule in able if rule.name not in fired and rule not in known]


def as_text(results: Sequence[Result]) -> str:
    """Returns every case that failed, and their number."""
    failed = [result for result in results if result.differences]
    failures = [f"FAIL {result.case.source}: {printable(result.case.name)}\n{result}" for result in failed]
    return "".join(failures) + f"{len(results)} case{'s' * (len(results) > 1)}, {len(failed)} failed"


def as_junit(results: Sequence[Result]) -> str:
    """Returns the results as JUnit XML."""
    cases = []
    for result in results:
        file, _, line = result.case.source.rpartition(":")
        cases.append(testcase(file, line, result.case.name))
        if result.differences:
            SubElement(cases[-1], "failure", message=", ".join(result.differences)).text = str(result)
    return as_xml("ultraserver-webhook rules test", cases)
