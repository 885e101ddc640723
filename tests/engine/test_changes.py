"""Who set each field: what the outcome of a request that asks to be explained says of it."""

from typing import Any

import pytest
from hypothesis import given

from common.pointers import parse_pointer, pointer
from contract import keys
from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.engine.strategies import jobs
from tests.helpers import examples
from tests.rules.tables import extended
from webhook.engine import Outcome, Request, admit, evaluate
from webhook.engine.changes import find_changes
from webhook.engine.outcome import Change, OutcomeKind
from webhook.objects.tree import Json, get, put, same
from webhook.rows.table import Table
from webhook.rules.load import load_default

AT = pointer(WORKER)
RECORD = f"{AT}/metadata/annotations/{keys.ADDED.replace('/', '~1')}"
LIMITS = ("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers", 0, "resources")


def explained(table: Table, obj: Json) -> Outcome:
    return evaluate(table, Request(obj, "default", "uid", explain=True))


def fields(received: Json, outcome: Outcome) -> tuple[Change, ...]:
    return find_changes(received, outcome.after, outcome.rules_by_path)


def who(table: Table, obj: Json) -> dict[str, tuple[Json, Json, str | None]]:
    reported = fields(obj, explained(table, obj))
    return {change.path: (change.before, change.after, change.rule) for change in reported}


def adding(*rows: str) -> Table:
    return extended(
        "rules:\n" + "".join(f"  - {{reason: r, match: {{role: worker}}, {row}}}\n" for row in rows)
    )


def differing(old: Json, new: Json, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Returns the paths at which two objects differ, as far as maps go."""
    if not (isinstance(old, dict | None) and isinstance(new, dict | None)) or old is new is None:
        return [] if same(old, new) else [path]
    pairs = (((old or {}).get(key), (new or {}).get(key), key) for key in {**(old or {}), **(new or {})})
    return [change for a, b, key in pairs for change in differing(a, b, (*path, key))]


def assert_whole(received: Json, outcome: Outcome) -> None:
    """Every field that differs is a change or lies in one, or in it lies one; every value is the true one."""
    reported = fields(received, outcome)
    paths = [parse_pointer(change.path) for change in reported]
    for path in differing(received, outcome.after):
        assert any(path[: len(one)] == one[: len(path)] for one in paths), path
    for change in reported:
        steps = [int(part) if part.isdigit() else part for part in parse_pointer(change.path)]
        assert same(
            get(received if change.after is None else outcome.after, steps), change.after or change.before
        )
        assert not same(change.before, change.after)
        assert change.rule is None or change.rule in outcome.fired()


@examples(10)
@given(jobs())
def test_every_field_that_differs_has_its_change_with_the_values_before_and_after(job: Any) -> None:
    """No difference between received and stored goes without a change; nor when a job comes again."""
    outcome = explained(load_default(), job)
    assert_whole(job, outcome)
    again = explained(extended("rules: [{name: job-label, mode: off}]\n"), outcome.after)
    assert_whole(outcome.after, again)


def test_each_kind_of_place_has_the_rule_that_set_it() -> None:
    """Entries of maps, elements of lists, expressions of node selector terms and the record: each its own."""
    setters = who(load_default(), mpijob())
    affinity = f"{AT}/spec/affinity"
    terms = (
        "nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0"
    )
    rules = {path.removeprefix(affinity): rule for path, (_, _, rule) in setters.items()}
    assert rules[f"{AT}/spec/nodeSelector/node.kubernetes.io~1instance-type"] == "ultraserver-nodes"
    assert rules["/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0"] == "together-required"
    assert rules[f"/{terms}"] == "nodes-with-server-id"
    assert rules[RECORD] is None
    assert {before for before, _, _ in setters.values()} == {None}


def test_fields_of_a_template_in_a_list_have_their_rules() -> None:
    """Before, a JobSet had one change for its whole list of templates, and no rule."""
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
    setters = who(load_default(), obj)
    spec = "/spec/replicatedJobs/0/template/spec/template/spec"
    assert setters[f"{spec}/nodeSelector/node.kubernetes.io~1instance-type"][2] == "ultraserver-nodes"
    assert_whole(obj, explained(load_default(), obj))


def test_the_value_before_is_the_users_and_the_last_rule_counts() -> None:
    """A field that a rule overrides has what stood there, and of two such rules the last is named."""
    row = "name: {}, onConflict: override, add: {{spec: {{hostname: {}}}}}"
    table = adding(row.format("x", "h"), row.format("z", "i"))
    setters = who(table, mpijob(worker_spec={"hostname": "mine"}))
    assert setters[f"{AT}/spec/hostname"] == ("mine", "i", "z")


def test_additions_of_a_rule_to_a_container_of_another_rule_are_separate() -> None:
    """A container is the first rule's, and the variable in it the second's."""
    own = "name: x, add: {spec: {initContainers: [{name: c, image: i, command: [a, b]}]}}"
    more = "name: z, add: {spec: {initContainers: [{name: c, env: [{name: V, value: w}]}]}}"
    setters = who(adding(own, more), mpijob())
    rules = {
        path: (after, rule)
        for path, (_, after, rule) in setters.items()
        if "Worker/template/spec/init" in path
    }
    at = f"{AT}/spec/initContainers/0"
    assert rules == {
        f"{at}/name": ("c", "x"),
        f"{at}/image": ("i", "x"),
        f"{at}/command": (["a", "b"], "x"),
        f"{at}/env/0": ({"name": "V", "value": "w"}, "z"),
    }


def test_earlier_additions_are_no_change_and_their_removal_is_of_no_rule() -> None:
    """Taking back and adding again what is there is nothing; what no rule adds any more is removed."""
    table = adding("name: x, add: {spec: {hostname: h}}")
    stored = explained(table, mpijob()).after
    assert who(table, stored) == {}
    differences = who(load_default(), stored)
    assert differences[f"{AT}/spec/hostname"] == ("h", None, None)
    assert {path for path, (_, _, rule) in differences.items() if rule} == set()


@pytest.mark.parametrize("workers", [4, 8], ids=["put back", "a new size"])
def test_of_an_update_the_changes_are_of_what_was_sent(workers: int) -> None:
    """Changes of an update are not a rule's; those of a new size are."""
    suspend = {"suspend": True}
    stored, sent = (put(mpijob(size), ("spec", "runPolicy"), suspend) for size in (4, workers))
    stored = explained(load_default(), stored).after
    for path in (WORKER, LAUNCHER):
        sent = put(sent, (*path, "metadata"), get(stored, (*path, "metadata")))
    outcome = admit(load_default(), Request(sent, "default", "uid", explain=True), stored)
    assert_whole(sent, outcome)
    rules = {change.path: change.rule for change in fields(sent, outcome)}
    by = {rule for path, rule in rules.items() if f"{AT}/spec/affinity" in path}
    assert by == (
        {None} if workers == 4 else {"together-preferred", "nodes-with-server-id", "apart-across-namespaces"}
    )


def test_a_review_without_changes_denied_or_in_shadow_has_no_changed_fields() -> None:
    """A live review does not pay for it; what is not done is not a change."""
    assert fields(mpijob(), evaluate(load_default(), Request(mpijob()))) == ()
    assert who(adding("name: x, deny: d"), mpijob()) == {}
    assert f"{AT}/spec/hostname" not in who(
        adding("name: x, mode: shadow, add: {spec: {hostname: h}}"), mpijob()
    )


def test_a_long_key_is_not_repeated_for_all_that_is_taken_back_below_it() -> None:
    """The text of all paths stays a small multiple of the object, with any keys and record."""
    key, elements = 20_000 * "k", [{"key": str(number)} for number in range(1_000)]
    differences = find_changes({key: {"tolerations": elements}}, {key: {"tolerations": elements[:1]}}, {})
    assert [len(change.path) for change in differences] == [len(key) + 1]


def test_elements_that_only_moved_are_a_change_of_their_list() -> None:
    """An order may mean something, and the patch has it."""
    old, new = ({"env": [{"name": name} for name in names]} for names in ("ab", "ba"))
    assert [change.path for change in find_changes(old, new, {})] == ["/env"]


OPTED = {keys.INJECT: "false"}


@pytest.mark.parametrize(
    ("table", "obj", "kind"),
    [
        ("", mpijob(), OutcomeKind.CHANGED),
        ("", explained(load_default(), mpijob()).after, OutcomeKind.UNCHANGED),
        ("mode: off\n", mpijob(), OutcomeKind.UNCHANGED),
        ("mode: shadow\n", mpijob(), OutcomeKind.UNCHANGED),
        ("", mpijob(-1), OutcomeKind.REFUSED),
        ("", put(mpijob(), LIMITS, {}), OutcomeKind.NO_CANDIDATE),
        ("", mpijob(annotations=OPTED), OutcomeKind.OPTED_OUT),
        (
            "",
            put(explained(load_default(), mpijob()).after, ("metadata", "annotations"), OPTED),
            OutcomeKind.CHANGED,
        ),
        ("", {"apiVersion": "v1", "kind": "ConfigMap"}, OutcomeKind.NO_WORKLOAD),
    ],
)
def test_what_came_of_an_object_is_one_word(table: str, obj: Json, kind: OutcomeKind) -> None:
    """The engine says it, and what is done goes before what the object is: opting out takes back."""
    assert evaluate(extended(table), Request(obj)).kind is kind
