"""Tests of the explanations of the rule table's keys: type, default, example and the keys below."""

import pytest

from tests.helpers import load_text
from tests.rules.tables import EXTENDS, SOURCE
from webhook.rules import messages
from webhook.rules.explain import explain_key, keys_by_path

KEYS_WITHOUT_EXAMPLE = {"candidates", "workloads", "rules", "policies", "rules.match"}
"""Keys that need no example, because the keys below them have examples."""


def test_the_end_of_a_path_is_enough_if_no_other_path_has_this_end() -> None:
    text = explain_key("match.labels")
    assert text == explain_key("rules.match.labels")
    first, *_, example = text.splitlines()
    assert first == "labels <map of text or a list of these>"
    assert example == "  For example: labels: {kueue.x-k8s.io/queue-name: Exists}"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("workers", messages.several_keys("workers", "families.shapes.workers or rules.match.workers")),
        ("rules.matches", messages.no_key("rules.matches", "; did you mean 'rules.match'?")),
    ],
)
def test_an_ambiguous_or_unknown_name_is_refused_with_the_possible_names(path: str, message: str) -> None:
    with pytest.raises(LookupError) as error:
        explain_key(path)
    assert error.value.args == (message,)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("rules.mode", "mode <enforce, shadow or off> default enforce"),
        ("rules.match", "role <text or any> required"),
        ("rules.add", "add <part of a pod template>"),
        ("rules.reason", "reason <text> required in a new row"),
        ("families.shapes", "workers <whole number or text> required in a new row"),
        ("mode", messages.other_keys("families.mode, rules.mode, policies.mode")),
        ("match.single", "single <true or false>"),
        ("groups.replicas", "atMost <JSON pointer>"),
        ("rules.needs", "needs <text or a list of these>"),
        ("policies.until", "until <time>"),
        ("fields", "function <dirname, min, count or least>"),
        ("families.claims", "takes <whole number or node> required"),
        ("", "families <list of Family>"),
    ],
)
def test_an_explanation_has_the_type_and_the_default_of_the_key_and_of_the_keys_below(
    path: str, line: str
) -> None:
    lines = explain_key("workloads.fields" if path == "fields" else path).splitlines()
    assert line in lines


def test_every_key_of_a_rule_has_an_example_that_loads() -> None:
    keys = {
        path: key
        for path, key in keys_by_path().items()
        if path.startswith("rules.") and path.count(".") == 1
    }
    assert [path for path, key in keys.items() if not key.example and path not in KEYS_WITHOUT_EXAMPLE] == []
    for name in ("onConflict", "mode", "unplaced", "quiet", "before", "deny"):
        row = f"{{name: job-label, warn: w, {keys[f'rules.{name}'].example}}}"
        load_text(f"{EXTENDS}rules: [{row}]\n", SOURCE)
