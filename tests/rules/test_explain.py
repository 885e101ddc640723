"""What a key means is said by its types, in words, with an example that a table may have."""

import pytest

from tests.helpers import load_text
from tests.rules.tables import EXTENDS, SOURCE
from webhook.rules.explain import explain_key, keys_by_path

BELOW = {"candidates", "workloads", "rules", "policies", "rules.match"}
"""Keys of which the keys below are the example."""


def test_a_key_is_named_by_the_end_of_its_path_where_no_other_ends_so() -> None:
    text = explain_key("match.labels")
    assert text == explain_key("rules.match.labels")
    first, *_, example = text.splitlines()
    assert first == "labels <map of text or a list of these>"
    assert example == "  For example: labels: {kueue.x-k8s.io/queue-name: Exists}"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("workers", "several keys have the name workers: use families.shapes.workers or rules.match.workers"),
        ("rules.matches", "no key has the name 'rules.matches'; did you mean 'rules.match'?"),
    ],
)
def test_another_name_is_answered_with_those_that_are_meant(path: str, message: str) -> None:
    with pytest.raises(LookupError) as messages:
        explain_key(path)
    assert messages.value.args == (message,)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("rules.mode", "mode <enforce, shadow or off> default enforce"),
        ("rules.match", "role <text or any> required"),
        ("rules.add", "add <part of a pod template>"),
        ("rules.reason", "reason <text> required in a new row"),
        ("families.shapes", "workers <whole number or text> required in a new row"),
        ("mode", "Other keys have the same name: families.mode, rules.mode, policies.mode"),
        ("match.single", "single <true or false>"),
        ("groups.replicas", "atMost <JSON pointer>"),
        ("rules.needs", "needs <text or a list of these>"),
        ("policies.until", "until <time>"),
        ("fields", "function <dirname, min, count or least>"),
        ("families.claims", "takes <whole number or node> required"),
        ("", "families <list of Family>"),
    ],
)
def test_the_type_and_the_default_are_words_and_the_keys_below_follow(path: str, line: str) -> None:
    lines = explain_key("workloads.fields" if path == "fields" else path).splitlines()
    assert line in lines


def test_every_key_of_a_rule_has_an_example_that_a_table_may_have() -> None:
    keys = {at: key for at, key in keys_by_path().items() if at.startswith("rules.") and at.count(".") == 1}
    assert [at for at, key in keys.items() if not key.example and at not in BELOW] == []
    for name in ("onConflict", "mode", "unplaced", "quiet", "before", "deny"):
        row = f"{{name: job-label, warn: w, {keys[f'rules.{name}'].example}}}"
        load_text(f"{EXTENDS}rules: [{row}]\n", SOURCE)
