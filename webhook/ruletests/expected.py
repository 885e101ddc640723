"""Compares an outcome with the expectations of a case, key by key."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from common.texts import did_you_mean
from webhook.documents import dump_yaml, read_documents
from webhook.engine import Outcome
from webhook.engine.outcome import OutcomeKind, RuleState
from webhook.objects import record
from webhook.objects.tree import Json, is_empty, same
from webhook.preview.lines import abridged, diff_as_yaml
from webhook.preview.sentence import DryRun, judge
from webhook.rows.table import Table
from webhook.ruletests import messages
from webhook.ruletests.cases import JOB_VERDICTS, RESPONSES, Case


def comparable(value: Json) -> Json:
    """Returns a value for comparison and for snapshots, without records and with abridged texts."""
    return abridged(_without_records(value))


def _without_records(value: Json) -> Json:
    """Returns a value without records, and without maps and lists that have only records."""
    if isinstance(value, list):
        return [_without_records(item) for item in value]
    if not isinstance(value, dict):
        return value
    others = {key: item for key, item in value.items() if key not in record.RECORD_KEYS}
    items = {key: (item, _without_records(item)) for key, item in others.items()}
    return {key: new for key, (old, new) in items.items() if is_empty(old) or not is_empty(new)}


def _outcome_words(table: Table, case: Case, outcome: Outcome) -> Iterator[str]:
    """Yields the words for the outcome; a word of `JOB_VERDICTS` only if the case expects such a word."""
    yield outcome.kind
    yield from (word for word, response in RESPONSES.items() if response is outcome.response)
    if case.expect.outcome in JOB_VERDICTS:
        (document,) = read_documents(dump_yaml(case.request.object), case.source)
        run = DryRun(table, document, case.request.namespace, document.value, outcome, case.stored)
        yield judge(run)[0]


def _check_outcome(table: Table, case: Case, outcome: Outcome) -> str:
    expected = case.expect.outcome
    # Without this check, a case whose kind is misspelt could pass, because the webhook ignores the object.
    is_known = outcome.kind is not OutcomeKind.NO_WORKLOAD
    if expected in _outcome_words(table, case, outcome) if expected else is_known:
        return ""
    reason = "; ".join((*outcome.denials, *outcome.warnings)) or outcome.reason
    kind = f"{outcome.kind}, {outcome.response}"
    return messages.other_outcome(expected or messages.KNOWN_KIND, kind, reason)


def _check_shadow(_: Table, case: Case, outcome: Outcome) -> str:
    expected, enforced = case.expect.shadow, outcome.enforced or outcome
    if expected in {None, enforced.kind}:
        return ""
    reason = "; ".join(enforced.denials) or enforced.reason
    return messages.other_enforced(expected, enforced.kind, reason)


def _check_rules(table: Table, case: Case, outcome: Outcome) -> str:
    names = [rule.name for rule in table.rules]
    actual = {rule.name: (rule.state, rule.why) for rule in outcome.rules}
    lines = []
    for name, state in case.expect.rules.items():
        actual_state, reason = actual.get(name, (RuleState.SKIPPED, messages.FOR_OTHER_OBJECTS))
        if name not in names:
            files = {item.file.partition(" ")[0] for origins in table.origins.values() for item in origins}
            no_rule = messages.no_packaged_rule if files == {"packaged"} else messages.no_rule
            lines.append(no_rule(name, did_you_mean(name, names)))
        elif actual_state != state:
            lines.append(f"{name}: {messages.other_outcome(state, actual_state, reason)}")
    return "\n".join(lines)


def _check_messages(_: Table, case: Case, outcome: Outcome) -> str:
    texts = "\n".join((*outcome.denials, *outcome.warnings)) or "nothing"
    return "\n".join(messages.no_message(text, texts) for text in case.expect.messages if text not in texts)


def _check_patch(_: Table, case: Case, outcome: Outcome) -> str:
    steps = [step for step in comparable(list(outcome.operations)) if not record.is_record(step["path"])]
    actual = [step for step in steps if "value" in step or step["op"] == "remove"]
    return "" if case.expect.patch is None else _difference(comparable(case.expect.patch), actual)


def _check_snapshot(_: Table, case: Case, outcome: Outcome) -> str:
    if not case.expect.snapshot:
        return ""
    if case.snapshot is None:
        return messages.NO_SNAPSHOT
    return _difference(comparable(case.snapshot), comparable(outcome.after))


def _difference(expected: Json, actual: Json) -> str:
    return "" if same(expected, actual) else "\n" + diff_as_yaml(expected, actual, "expected", "actual")


CHECKS: Final[Mapping[str, Callable[[Table, Case, Outcome], str]]] = {
    "outcome": _check_outcome,
    "shadow": _check_shadow,
    "rules": _check_rules,
    "messages": _check_messages,
    "patch": _check_patch,
    "snapshot": _check_snapshot,
}
"""The check for each key of `Expect`; a check returns how the outcome differs, or an empty text."""
