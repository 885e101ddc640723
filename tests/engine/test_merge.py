"""Merging by Kubernetes identity, and lists that are one value, one case a sentence."""

from typing import Any

import pytest

from webhook.objects.lists import APPENDABLE, EXPRESSIONS, IDENTITY_KEYS, TERMS, ListKind, list_kind
from webhook.objects.merge import Conflict, Merge, OnConflict
from webhook.objects.patch import compute_patch
from webhook.objects.takeback import Budget, take_back
from webhook.objects.tree import WrongTypeError, digest
from webhook.rows.placeholders import ABSENT, make_filler

EXISTS = {"key": "server", "operator": "Exists"}
TYPE = {"key": "type", "operator": "Exists"}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


def merged(theirs: Any, ours: Any, on_conflict: OnConflict = OnConflict.KEEP) -> tuple[Any, Merge]:
    merge = Merge(("spec", "template"), on_conflict)
    return merge.apply(theirs, ours), merge


def terms(*expressions: list[Any]) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": list(group)} for group in expressions]}


ADDED = {
    "a missing map is made": (
        {},
        {"spec": {"nodeSelector": {"a": "1"}}},
        {"spec": {"nodeSelector": {"a": "1"}}},
    ),
    "a null map is made": ({"spec": None}, {"spec": {"a": "1"}}, {"spec": {"a": "1"}}),
    "a key is added to others": (
        {"labels": {"a": "1"}},
        {"labels": {"b": "2"}},
        {"labels": {"a": "1", "b": "2"}},
    ),
    "a null list is made": ({"volumes": None}, {"volumes": [{"name": "a"}]}, {"volumes": [{"name": "a"}]}),
    "an element is appended": (
        {"volumes": [{"name": "a"}]},
        {"volumes": [{"name": "b"}]},
        {"volumes": [{"name": "a"}, {"name": "b"}]},
    ),
    "a toleration is one by its content": (
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"operator": "Exists"}, {"key": "x"}]},
        {"tolerations": [{"operator": "Exists"}, {"key": "x"}]},
    ),
    "a container without an image amends the one of its name": (
        {"containers": [{"name": "main", "image": "i", "env": [{"name": "A", "value": "1"}]}]},
        {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]},
        {
            "containers": [
                {
                    "name": "main",
                    "image": "i",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                }
            ]
        },
    ),
    "node terms are alternatives, so every one gets the requirement": (
        terms([ZONE], [TYPE]) | {"x": 1},
        terms([EXISTS]),
        {
            "nodeSelectorTerms": [{"matchExpressions": [ZONE, EXISTS]}, {"matchExpressions": [TYPE, EXISTS]}],
            "x": 1,
        },
    ),
    "a node term of fields alone gets it as well": (
        {"nodeSelectorTerms": [{"matchFields": [ZONE]}]},
        terms([EXISTS]),
        {"nodeSelectorTerms": [{"matchFields": [ZONE], "matchExpressions": [EXISTS]}]},
    ),
    "an empty node term selects nothing and goes on selecting nothing": (
        {"nodeSelectorTerms": [{}, {"matchExpressions": []}, {"matchFields": None}]},
        terms([EXISTS]),
        {"nodeSelectorTerms": [{}, {"matchExpressions": []}, {"matchFields": None}]},
    ),
    "without node terms there is one": ({"nodeSelectorTerms": []}, terms([EXISTS]), terms([EXISTS])),
}


@pytest.mark.parametrize(("theirs", "ours", "after"), ADDED.values(), ids=ADDED)
def test_what_is_missing_is_added(theirs: Any, ours: Any, after: Any) -> None:
    result, merge = merged(theirs, ours)
    assert (result, merge.conflicts) == (after, [])


@pytest.mark.parametrize(("ours", "after"), [(case[1], case[2]) for case in ADDED.values()], ids=ADDED)
def test_what_is_there_already_is_the_same_object_and_nothing_is_noted(ours: Any, after: Any) -> None:
    result, merge = merged(after, ours)
    assert result is after
    assert (merge.additions, merge.conflicts) == ({}, [])


CONFLICTS = {
    "a map entry": ({"a": "1"}, {"a": "2"}, "spec.template.a"),
    "a volume is one whole": (
        {"volumes": [{"name": "v", "hostPath": {}}]},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        "spec.template.volumes[v]",
    ),
    "a container with an image is one whole": (
        {"initContainers": [{"name": "c", "image": "mine"}]},
        {"initContainers": [{"name": "c", "image": "yours", "command": ["x"]}]},
        "spec.template.initContainers[c]",
    ),
    "a command means something only as a whole": (
        {"command": ["a"]},
        {"command": ["a", "b"]},
        "spec.template.command",
    ),
    "a port is one by number and protocol, TCP where it says none": (
        {"ports": [{"containerPort": 22, "protocol": "TCP"}]},
        {"ports": [{"containerPort": 22, "name": "ssh"}]},
        "spec.template.ports[ssh]",
    ),
    "true is not 1": ({"a": True}, {"a": 1}, "spec.template.a"),
}


@pytest.mark.parametrize(("theirs", "ours", "place"), CONFLICTS.values(), ids=CONFLICTS)
def test_the_users_choice_stays_with_a_warning(theirs: Any, ours: Any, place: str) -> None:
    result, merge = merged(theirs, ours)
    assert result is theirs
    assert [conflict.path for conflict in merge.conflicts] == [place]
    assert merge.additions == {}


@pytest.mark.parametrize(("theirs", "ours", "place"), CONFLICTS.values(), ids=CONFLICTS)
def test_an_override_puts_the_rules_choice_in_its_place(theirs: Any, ours: Any, place: str) -> None:
    result, merge = merged(theirs, ours, OnConflict.OVERRIDE)
    assert result == ours
    assert [conflict.path for conflict in merge.conflicts] == [place]


def test_of_two_variables_with_one_name_the_last_is_overridden_because_it_counts() -> None:
    env = [{"name": "H", "value": "users"}, {"name": "H", "value": "operators"}]
    result, merge = merged({"env": env}, {"env": [{"name": "H", "value": "ours"}]}, OnConflict.OVERRIDE)
    assert result == {"env": [env[0], {"name": "H", "value": "ours"}]}
    assert merge.conflicts == [Conflict("spec.template.env[H]", env[1], {"name": "H", "value": "ours"})]


@pytest.mark.parametrize("ours", ["initContainers", "containers"])
@pytest.mark.parametrize("policy", list(OnConflict))
def test_a_container_with_a_name_of_the_other_list_is_reported_and_not_added(
    ours: str, policy: OnConflict
) -> None:
    other = {"initContainers": "containers", "containers": "initContainers"}[ours]
    theirs = {"spec": {other: [{"name": "c", "image": "mine"}]}}
    result, merge = merged(theirs, {"spec": {ours: [{"name": "c", "image": "yours"}]}}, policy)
    assert result is theirs
    assert merge.obstacles == [f"spec.template.spec.{ours} cannot have 'c', a name that is taken in {other}"]


def test_a_missing_container_of_an_amendment_is_reported_and_not_created() -> None:
    theirs = {"containers": [{"name": "main", "image": "i"}]}
    result, merge = merged(theirs, {"containers": [{"name": "other", "env": []}]})
    assert result is theirs
    assert merge.obstacles == ["spec.template.containers has no 'other' to amend"]


@pytest.mark.parametrize("value", ["text", 1, True, ["list"]])
def test_a_value_of_a_wrong_type_is_named_with_its_place(value: Any) -> None:
    with pytest.raises(WrongTypeError, match=r"^spec\.template\.spec\.nodeSelector must be a map, not "):
        merged({"spec": {"nodeSelector": value}}, {"spec": {"nodeSelector": {"a": "1"}}})


@pytest.mark.parametrize(("names", "reported"), [(["init", "wait"], True), (["wait", "init"], False)])
def test_an_element_of_the_users_in_a_late_position_is_reported(names: list[str], *, reported: bool) -> None:
    """Protects a job with both init containers of its own from a script that starts too early."""
    merge = Merge((), before=["init"])
    theirs = {"initContainers": [{"name": name, "image": "own"} for name in names]}
    after = merge.apply(theirs, {"initContainers": [{"name": "wait", "image": "i"}]})
    assert after == theirs
    assert (merge.obstacles == ["move 'wait' before init in initContainers"]) is reported


WHOLE = ["command", "args", "values", "matchLabelKeys", "searches", "unknown", "matchExpressions", "items"]


def build_base(key: str, items: list[Any]) -> Any:
    return {"spec": {key: items}}


@pytest.mark.parametrize("key", WHOLE)
def test_one_value_keeps_the_order_that_is_wanted(key: str) -> None:
    wanted = build_base(key, ["bash", "-c", "NEW", "init", "wait"])
    assert compute_patch(build_base(key, ["bash", "-c", "OLD", "init", "wait"]), {(): wanted})[0] == wanted
    assert compute_patch(build_base(key, ["wait", "init", "NEW", "-c", "bash"]), {(): wanted})[0] == wanted


@pytest.mark.parametrize("key", WHOLE)
def test_one_value_is_replaced_whole(key: str) -> None:
    _, (operation,) = compute_patch(build_base(key, ["a", "b", "c"]), {(): build_base(key, ["a", "c", "d"])})
    assert operation == {"op": "replace", "path": f"/spec/{key}", "value": ["a", "c", "d"]}


@pytest.mark.parametrize("key", WHOLE)
def test_one_value_is_merged_whole(key: str) -> None:
    merge = Merge(())
    assert merge.apply(build_base(key, ["a"]), build_base(key, ["a", "b"])) == build_base(key, ["a"])
    assert [conflict.path for conflict in merge.conflicts] == [f"spec.{key}"]
    assert Merge(()).apply({}, build_base(key, ["a", "b"])) == build_base(key, ["a", "b"])


@pytest.mark.parametrize("key", WHOLE)
def test_nothing_is_taken_out_of_one_value(key: str) -> None:
    template = build_base(key, ["a", "b"])
    assert take_back(template, {f"/spec/{key}": [digest("b")]}, Budget(template)) is template
    assert take_back(template, {f"/spec/{key}": digest(["a", "b"])}, Budget(template)) == {}
    assert digest(["\ud800a"]) != digest(["\ud800b"]), "half a surrogate pair, which orjson refuses"


@pytest.mark.parametrize("key", ["tolerations", "env"])
def test_what_was_taken_back_and_added_again_stays_at_its_place(key: str) -> None:
    ours, theirs = {"name": "ours"}, {"name": "theirs"}
    received = build_base(key, [ours, theirs])
    stored, patch = compute_patch(received, {(): build_base(key, [theirs, dict(ours)])})
    assert stored is received
    assert patch == []


def test_no_list_is_two_things() -> None:
    assert not APPENDABLE & IDENTITY_KEYS.keys()
    assert TERMS not in APPENDABLE | IDENTITY_KEYS.keys()
    for name in EXPRESSIONS:
        assert list_kind(("affinity", TERMS, 0, name)) is ListKind.ITEMS
        assert list_kind(("labelSelector", name)) is ListKind.VALUE


def test_what_a_job_does_not_have_is_left_out_of_a_list_and_of_a_map() -> None:
    fill = make_filler({"a": ["b", "$(x.none)", "$(x.some)"], "c": "$(x.none)"})
    assert fill
    assert fill({"x.none": ABSENT, "x.some": ["d"]}) == {"a": ["b", "d"]}


def test_a_list_in_a_list_extends_it_by_what_has_another_name() -> None:
    mounts = [{"mountPath": "$(x.at)", "name": "ours"}, "$(x.sshMounts)"]
    fill = make_filler({"volumeMounts": mounts, "envFrom": ["$(x.sshEnvFrom)"]})
    assert fill
    at, other = {"mountPath": "/etc/mpi", "name": "theirs"}, {"mountPath": "/b", "name": "ours"}
    ours = {"mountPath": "/etc/mpi", "name": "ours"}
    assert fill({"x.at": "/etc/mpi", "x.sshMounts": [at, other]}) == {"volumeMounts": [ours, other]}
    sources = [{"configMapRef": {"name": name}} for name in "ab"]
    filled = {"volumeMounts": [ours], "envFrom": sources}
    assert fill({"x.at": "/etc/mpi", "x.sshMounts": ABSENT, "x.sshEnvFrom": sources}) == filled


def test_two_placeholders_with_one_value_are_one_mount() -> None:
    """Kubernetes refuses a Pod with one path twice; a job may have its keys at that of the host file."""
    mounts = [{"mountPath": "/etc/mpi"}, {"mountPath": "$(x.at)"}, "$(x.sshMounts)"]
    fill = make_filler({"volumeMounts": mounts})
    assert fill
    assert fill({"x.at": "/etc/mpi", "x.sshMounts": ABSENT}) == {"volumeMounts": [{"mountPath": "/etc/mpi"}]}
