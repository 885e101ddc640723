"""Tests of the changes of an outcome: each changed field, with its values and the rule that set it."""

from typing import Any

import pytest
from hypothesis import given

from common.pointers import parse_pointer, pointer
from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.engine.strategies import jobs
from tests.helpers import examples
from tests.rules.tables import extend_table
from webhook.engine import Outcome, Request, admit, evaluate
from webhook.engine.changes import find_changes
from webhook.engine.outcome import Change, OutcomeKind
from webhook.objects.tree import Json, get, put, same
from webhook.rows.table import Table
from webhook.rules.load import load_default

WORKER_POINTER = pointer(WORKER)
RECORD = f"{WORKER_POINTER}/metadata/annotations/{keys.ADDED.replace('/', '~1')}"
RESOURCES = ("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers", 0, "resources")


def evaluate_explained(table: Table, obj: Json) -> Outcome:
    return evaluate(table, Request(obj, "default", "uid", explain=True))


def changes_of(received: Json, outcome: Outcome) -> tuple[Change, ...]:
    return find_changes(received, outcome.after, outcome.rules_by_path)


def changes_by_path(table: Table, obj: Json) -> dict[str, tuple[Json, Json, str | None]]:
    changes = changes_of(obj, evaluate_explained(table, obj))
    return {change.path: (change.before, change.after, change.rule) for change in changes}


def table_with(*rows: str) -> Table:
    return extend_table(
        "rules:\n" + "".join(f"  - {{reason: r, match: {{role: worker}}, {row}}}\n" for row in rows)
    )


def differing_paths(old: Json, new: Json, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Returns the paths at which two objects differ. Lists are compared as a whole."""
    if not (isinstance(old, dict | None) and isinstance(new, dict | None)) or old is new is None:
        return [] if same(old, new) else [path]
    pairs = (((old or {}).get(key), (new or {}).get(key), key) for key in {**(old or {}), **(new or {})})
    return [change for a, b, key in pairs for change in differing_paths(a, b, (*path, key))]


def assert_changes_are_complete(received: Json, outcome: Outcome) -> None:
    """Checks that each difference is covered by changes, and that the values of the changes are right."""
    changes = changes_of(received, outcome)
    change_paths = [parse_pointer(change.path) for change in changes]
    for path in differing_paths(received, outcome.after):
        assert any(path[: len(change)] == change[: len(path)] for change in change_paths), path
    for change in changes:
        steps = [int(part) if part.isdigit() else part for part in parse_pointer(change.path)]
        assert same(
            get(received if change.after is None else outcome.after, steps), change.after or change.before
        )
        assert not same(change.before, change.after)
        assert change.rule is None or change.rule in outcome.fired()


@examples(10)
@given(jobs())
def test_every_field_that_differs_has_a_change_with_its_old_and_new_value(job: Any) -> None:
    """The second evaluation removes additions, because the table then has no rule for the job label."""
    outcome = evaluate_explained(load_default(), job)
    assert_changes_are_complete(job, outcome)
    second_outcome = evaluate_explained(
        extend_table("rules: [{name: job-label, mode: off}]\n"), outcome.after
    )
    assert_changes_are_complete(outcome.after, second_outcome)


def test_each_kind_of_field_has_the_rule_that_set_it() -> None:
    """The fields are map entries, list elements, expressions of node selector terms, and the record."""
    changes = changes_by_path(load_default(), mpijob())
    affinity = f"{WORKER_POINTER}/spec/affinity"
    terms = (
        "nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0"
    )
    rules = {path.removeprefix(affinity): rule for path, (_, _, rule) in changes.items()}
    assert (
        rules[f"{WORKER_POINTER}/spec/nodeSelector/node.kubernetes.io~1instance-type"] == "ultraserver-nodes"
    )
    assert rules["/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0"] == "together-required"
    assert rules[f"/{terms}"] == "nodes-with-server-id"
    assert rules[RECORD] is None
    assert {before for before, _, _ in changes.values()} == {None}


def test_fields_of_a_template_in_a_list_have_their_rules() -> None:
    """Protects JobSets from one change without a rule for their whole list of templates."""
    template = get(mpijob(), WORKER)
    job = {
        "replicas": 1,
        "template": {"spec": {"completionMode": "Indexed", "completions": 4, "template": template}},
    }
    obj = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [{"name": "a", **job}]},
    }
    changes = changes_by_path(load_default(), obj)
    spec = "/spec/replicatedJobs/0/template/spec/template/spec"
    assert changes[f"{spec}/nodeSelector/node.kubernetes.io~1instance-type"][2] == "ultraserver-nodes"
    assert_changes_are_complete(obj, evaluate_explained(load_default(), obj))


def test_an_overridden_field_has_the_users_value_and_the_last_rule() -> None:
    row = "name: {}, onConflict: override, add: {{spec: {{hostname: {}}}}}"
    table = table_with(row.format("x", "h"), row.format("z", "i"))
    changes = changes_by_path(table, mpijob(worker_spec={"hostname": "mine"}))
    assert changes[f"{WORKER_POINTER}/spec/hostname"] == ("mine", "i", "z")


def test_the_variable_that_a_rule_adds_to_another_rules_container_is_a_separate_change() -> None:
    """The container has the first rule, and a variable in it has the second rule."""
    first_rule = "name: x, add: {spec: {initContainers: [{name: c, image: i, command: [a, b]}]}}"
    second_rule = "name: z, add: {spec: {initContainers: [{name: c, env: [{name: V, value: w}]}]}}"
    changes = changes_by_path(table_with(first_rule, second_rule), mpijob())
    rules = {
        path: (after, rule)
        for path, (_, after, rule) in changes.items()
        if "Worker/template/spec/init" in path
    }
    at = f"{WORKER_POINTER}/spec/initContainers/0"
    assert rules == {
        f"{at}/name": ("c", "x"),
        f"{at}/image": ("i", "x"),
        f"{at}/command": (["a", "b"], "x"),
        f"{at}/env/0": ({"name": "V", "value": "w"}, "z"),
    }


def test_earlier_additions_are_not_a_change_and_their_removal_has_no_rule() -> None:
    """An addition that no rule adds any more is removed."""
    table = table_with("name: x, add: {spec: {hostname: h}}")
    stored = evaluate_explained(table, mpijob()).after
    assert changes_by_path(table, stored) == {}
    changes = changes_by_path(load_default(), stored)
    assert changes[f"{WORKER_POINTER}/spec/hostname"] == ("h", None, None)
    assert {path for path, (_, _, rule) in changes.items() if rule} == set()


@pytest.mark.parametrize("workers", [4, 8], ids=["put back", "a new size"])
def test_the_changes_of_an_update_are_the_differences_from_the_sent_object(workers: int) -> None:
    """Additions that are put back have no rule. The terms of a new size have their rules."""
    suspend = {"suspend": True}
    stored, sent = (put(mpijob(size), ("spec", "runPolicy"), suspend) for size in (4, workers))
    stored = evaluate_explained(load_default(), stored).after
    for path in (WORKER, LAUNCHER):
        sent = put(sent, (*path, "metadata"), get(stored, (*path, "metadata")))
    outcome = admit(load_default(), Request(sent, "default", "uid", explain=True), stored)
    assert_changes_are_complete(sent, outcome)
    rules = {change.path: change.rule for change in changes_of(sent, outcome)}
    affinity_rules = {rule for path, rule in rules.items() if f"{WORKER_POINTER}/spec/affinity" in path}
    assert affinity_rules == (
        {None} if workers == 4 else {"together-preferred", "nodes-with-server-id", "apart-across-namespaces"}
    )


def test_a_live_review_a_denial_and_a_rule_in_shadow_mode_have_no_changes() -> None:
    """Protects live reviews, which do not need the changes, from the cost of finding them."""
    assert changes_of(mpijob(), evaluate(load_default(), Request(mpijob()))) == ()
    assert changes_by_path(table_with("name: x, deny: d"), mpijob()) == {}
    assert f"{WORKER_POINTER}/spec/hostname" not in changes_by_path(
        table_with("name: x, mode: shadow, add: {spec: {hostname: h}}"), mpijob()
    )


def test_many_removals_below_a_long_key_are_one_change() -> None:
    """Protects answers from repeating a long key for each removed element."""
    key, elements = 20_000 * "k", [{"key": str(number)} for number in range(1_000)]
    changes = find_changes({key: {"tolerations": elements}}, {key: {"tolerations": elements[:1]}}, {})
    assert [len(change.path) for change in changes] == [len(key) + 1]


def test_elements_that_move_are_a_change_of_their_list() -> None:
    """The order of variables can matter, and the patch changes it."""
    old, new = ({"env": [{"name": name} for name in names]} for names in ("ab", "ba"))
    assert [change.path for change in find_changes(old, new, {})] == ["/env"]


OPT_OUT = {keys.INJECT: "false"}


@pytest.mark.parametrize(
    ("table", "obj", "kind"),
    [
        ("", mpijob(), OutcomeKind.CHANGED),
        ("", evaluate_explained(load_default(), mpijob()).after, OutcomeKind.UNCHANGED),
        ("mode: off\n", mpijob(), OutcomeKind.UNCHANGED),
        ("mode: shadow\n", mpijob(), OutcomeKind.UNCHANGED),
        ("", mpijob(-1), OutcomeKind.REFUSED),
        ("", put(mpijob(), RESOURCES, {}), OutcomeKind.NO_CANDIDATE),
        ("", mpijob(annotations=OPT_OUT), OutcomeKind.OPTED_OUT),
        (
            "",
            put(evaluate_explained(load_default(), mpijob()).after, ("metadata", "annotations"), OPT_OUT),
            OutcomeKind.CHANGED,
        ),
        ("", {"apiVersion": "v1", "kind": "ConfigMap"}, OutcomeKind.NO_WORKLOAD),
    ],
)
def test_each_outcome_has_a_kind(table: str, obj: Json, kind: OutcomeKind) -> None:
    """A job that opts out and still has additions is changed, because the additions are removed."""
    assert evaluate(extend_table(table), Request(obj)).kind is kind
