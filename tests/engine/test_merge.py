"""Tests of merges: elements of some lists are identified by a key, and other lists are one value."""

from typing import Any

import pytest

from webhook.objects import messages
from webhook.objects.lists import APPENDABLE, EXPRESSIONS, IDENTITY_KEYS, TERMS, ListKind, list_kind
from webhook.objects.merge import Conflict, Merge, OnConflict
from webhook.objects.patch import compute_patch
from webhook.objects.takeback import Budget, take_back
from webhook.objects.tree import WrongTypeError, digest, shown
from webhook.rows.placeholders import ABSENT, make_filler

EXISTS = {"key": "server", "operator": "Exists"}
TYPE = {"key": "type", "operator": "Exists"}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


def merge_fragment(
    template: Any, fragment: Any, on_conflict: OnConflict = OnConflict.KEEP
) -> tuple[Any, Merge]:
    merge = Merge(("spec", "template"), on_conflict)
    return merge.apply(template, fragment), merge


def terms(*expressions: list[Any]) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": list(group)} for group in expressions]}


ADDED = {
    "a missing map is created": (
        {},
        {"spec": {"nodeSelector": {"a": "1"}}},
        {"spec": {"nodeSelector": {"a": "1"}}},
    ),
    "a null map is replaced": ({"spec": None}, {"spec": {"a": "1"}}, {"spec": {"a": "1"}}),
    "a key is added to others": (
        {"labels": {"a": "1"}},
        {"labels": {"b": "2"}},
        {"labels": {"a": "1", "b": "2"}},
    ),
    "a null list is replaced": (
        {"volumes": None},
        {"volumes": [{"name": "a"}]},
        {"volumes": [{"name": "a"}]},
    ),
    "an element is appended": (
        {"volumes": [{"name": "a"}]},
        {"volumes": [{"name": "b"}]},
        {"volumes": [{"name": "a"}, {"name": "b"}]},
    ),
    "a toleration is identified by its content": (
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"operator": "Exists"}, {"key": "x"}]},
        {"tolerations": [{"operator": "Exists"}, {"key": "x"}]},
    ),
    "a container without an image amends the container with its name": (
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
    "node selector terms are alternatives, so every term gets the requirement": (
        terms([ZONE], [TYPE]) | {"x": 1},
        terms([EXISTS]),
        {
            "nodeSelectorTerms": [{"matchExpressions": [ZONE, EXISTS]}, {"matchExpressions": [TYPE, EXISTS]}],
            "x": 1,
        },
    ),
    "a node selector term with only fields gets the requirement": (
        {"nodeSelectorTerms": [{"matchFields": [ZONE]}]},
        terms([EXISTS]),
        {"nodeSelectorTerms": [{"matchFields": [ZONE], "matchExpressions": [EXISTS]}]},
    ),
    "an empty node selector term, which selects nothing, stays empty": (
        {"nodeSelectorTerms": [{}, {"matchExpressions": []}, {"matchFields": None}]},
        terms([EXISTS]),
        {"nodeSelectorTerms": [{}, {"matchExpressions": []}, {"matchFields": None}]},
    ),
    "an empty list of node selector terms gets a term": (
        {"nodeSelectorTerms": []},
        terms([EXISTS]),
        terms([EXISTS]),
    ),
}


@pytest.mark.parametrize(("template", "fragment", "after"), ADDED.values(), ids=ADDED)
def test_a_missing_value_is_added(template: Any, fragment: Any, after: Any) -> None:
    result, merge = merge_fragment(template, fragment)
    assert (result, merge.conflicts) == (after, [])


@pytest.mark.parametrize(("fragment", "after"), [(case[1], case[2]) for case in ADDED.values()], ids=ADDED)
def test_a_merge_of_existing_values_returns_the_same_object_and_adds_nothing(
    fragment: Any, after: Any
) -> None:
    result, merge = merge_fragment(after, fragment)
    assert result is after
    assert (merge.additions, merge.conflicts) == ({}, [])


CONFLICTS = {
    "a map entry": ({"a": "1"}, {"a": "2"}, "spec.template.a"),
    "a volume is one value": (
        {"volumes": [{"name": "v", "hostPath": {}}]},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        "spec.template.volumes[v]",
    ),
    "a container with an image is one value": (
        {"initContainers": [{"name": "c", "image": "mine"}]},
        {"initContainers": [{"name": "c", "image": "yours", "command": ["x"]}]},
        "spec.template.initContainers[c]",
    ),
    "a command is one value": (
        {"command": ["a"]},
        {"command": ["a", "b"]},
        "spec.template.command",
    ),
    "a port is identified by number and protocol, by default TCP": (
        {"ports": [{"containerPort": 22, "protocol": "TCP"}]},
        {"ports": [{"containerPort": 22, "name": "ssh"}]},
        "spec.template.ports[ssh]",
    ),
    "true is not 1": ({"a": True}, {"a": 1}, "spec.template.a"),
}


@pytest.mark.parametrize(("template", "fragment", "path"), CONFLICTS.values(), ids=CONFLICTS)
def test_the_users_value_stays_and_the_conflict_is_reported(template: Any, fragment: Any, path: str) -> None:
    result, merge = merge_fragment(template, fragment)
    assert result is template
    assert [conflict.path for conflict in merge.conflicts] == [path]
    assert merge.additions == {}


@pytest.mark.parametrize(("template", "fragment", "path"), CONFLICTS.values(), ids=CONFLICTS)
def test_an_override_replaces_the_users_value_and_the_conflict_is_reported(
    template: Any, fragment: Any, path: str
) -> None:
    result, merge = merge_fragment(template, fragment, OnConflict.OVERRIDE)
    assert result == fragment
    assert [conflict.path for conflict in merge.conflicts] == [path]


def test_the_last_of_two_variables_with_one_name_is_overridden() -> None:
    env = [{"name": "H", "value": "users"}, {"name": "H", "value": "operators"}]
    result, merge = merge_fragment(
        {"env": env}, {"env": [{"name": "H", "value": "ours"}]}, OnConflict.OVERRIDE
    )
    assert result == {"env": [env[0], {"name": "H", "value": "ours"}]}
    assert merge.conflicts == [Conflict("spec.template.env[H]", env[1], {"name": "H", "value": "ours"})]


@pytest.mark.parametrize("list_name", ["initContainers", "containers"])
@pytest.mark.parametrize("policy", list(OnConflict))
def test_a_container_with_a_name_of_the_other_list_is_reported_and_not_added(
    list_name: str, policy: OnConflict
) -> None:
    other_list = {"initContainers": "containers", "containers": "initContainers"}[list_name]
    template = {"spec": {other_list: [{"name": "c", "image": "mine"}]}}
    result, merge = merge_fragment(template, {"spec": {list_name: [{"name": "c", "image": "yours"}]}}, policy)
    assert result is template
    assert merge.obstacles == [messages.name_taken(f"spec.template.spec.{list_name}", "c", other_list)]


def test_a_missing_container_of_an_amendment_is_reported_and_not_created() -> None:
    template = {"containers": [{"name": "main", "image": "i"}]}
    result, merge = merge_fragment(template, {"containers": [{"name": "other", "env": []}]})
    assert result is template
    assert merge.obstacles == [messages.cannot_amend("spec.template.containers", "other")]


@pytest.mark.parametrize("value", ["text", 1, True, ["list"]])
def test_an_error_about_a_wrong_type_has_the_path_of_the_value(value: Any) -> None:
    with pytest.raises(WrongTypeError) as error:
        merge_fragment({"spec": {"nodeSelector": value}}, {"spec": {"nodeSelector": {"a": "1"}}})
    path = "spec.template.spec.nodeSelector"
    assert str(error.value) == messages.wrong_type(path, "a map", shown(value))


@pytest.mark.parametrize(("names", "reported"), [(["init", "wait"], True), (["wait", "init"], False)])
def test_two_elements_of_the_user_are_reported_if_their_order_is_wrong(
    names: list[str], *, reported: bool
) -> None:
    """Protects users who write both init containers: the container `wait` must run before `init`."""
    merge = Merge((), before=["init"])
    template = {"initContainers": [{"name": name, "image": "own"} for name in names]}
    after = merge.apply(template, {"initContainers": [{"name": "wait", "image": "i"}]})
    assert after == template
    assert (merge.obstacles == [messages.wrong_order("wait", "init", "initContainers")]) is reported


ONE_VALUE_LISTS = [
    "command",
    "args",
    "values",
    "matchLabelKeys",
    "searches",
    "unknown",
    "matchExpressions",
    "items",
]


def build_object(key: str, items: list[Any]) -> Any:
    return {"spec": {key: items}}


@pytest.mark.parametrize("key", ONE_VALUE_LISTS)
def test_a_list_that_is_one_value_gets_the_order_of_the_new_list(key: str) -> None:
    expected = build_object(key, ["bash", "-c", "NEW", "init", "wait"])
    assert (
        compute_patch(build_object(key, ["bash", "-c", "OLD", "init", "wait"]), {(): expected})[0] == expected
    )
    assert (
        compute_patch(build_object(key, ["wait", "init", "NEW", "-c", "bash"]), {(): expected})[0] == expected
    )


@pytest.mark.parametrize("key", ONE_VALUE_LISTS)
def test_a_list_that_is_one_value_is_replaced_as_a_whole(key: str) -> None:
    _, (operation,) = compute_patch(
        build_object(key, ["a", "b", "c"]), {(): build_object(key, ["a", "c", "d"])}
    )
    assert operation == {"op": "replace", "path": f"/spec/{key}", "value": ["a", "c", "d"]}


@pytest.mark.parametrize("key", ONE_VALUE_LISTS)
def test_a_list_that_is_one_value_is_not_extended(key: str) -> None:
    merge = Merge(())
    assert merge.apply(build_object(key, ["a"]), build_object(key, ["a", "b"])) == build_object(key, ["a"])
    assert [conflict.path for conflict in merge.conflicts] == [f"spec.{key}"]
    assert Merge(()).apply({}, build_object(key, ["a", "b"])) == build_object(key, ["a", "b"])


@pytest.mark.parametrize("key", ONE_VALUE_LISTS)
def test_no_element_is_removed_from_a_list_that_is_one_value(key: str) -> None:
    template = build_object(key, ["a", "b"])
    assert take_back(template, {f"/spec/{key}": [digest("b")]}, Budget(template)) is template
    assert take_back(template, {f"/spec/{key}": digest(["a", "b"])}, Budget(template)) == {}
    assert digest(["\ud800a"]) != digest(["\ud800b"]), (
        "orjson cannot encode half a surrogate pair, so `digest` must encode it in another way"
    )


@pytest.mark.parametrize("key", ["tolerations", "env"])
def test_an_element_that_is_removed_and_added_again_keeps_its_position(key: str) -> None:
    added_item, user_item = {"name": "added"}, {"name": "user"}
    received = build_object(key, [added_item, user_item])
    stored, patch = compute_patch(received, {(): build_object(key, [user_item, dict(added_item)])})
    assert stored is received
    assert patch == []


def test_each_list_has_one_kind() -> None:
    assert not APPENDABLE & IDENTITY_KEYS.keys()
    assert TERMS not in APPENDABLE | IDENTITY_KEYS.keys()
    for name in EXPRESSIONS:
        assert list_kind(("affinity", TERMS, 0, name)) is ListKind.ITEMS
        assert list_kind(("labelSelector", name)) is ListKind.VALUE


def test_a_placeholder_without_a_value_is_left_out_of_lists_and_maps() -> None:
    fill = make_filler({"a": ["b", "$(x.none)", "$(x.some)"], "c": "$(x.none)"})
    assert fill
    assert fill({"x.none": ABSENT, "x.some": ["d"]}) == {"a": ["b", "d"]}


def test_a_placeholder_for_a_list_adds_elements_with_new_keys_to_the_list_around_it() -> None:
    mounts = [{"mountPath": "$(x.at)", "name": "ours"}, "$(x.sshMounts)"]
    fill = make_filler({"volumeMounts": mounts, "envFrom": ["$(x.sshEnvFrom)"]})
    assert fill
    user_mounts = [{"mountPath": "/etc/mpi", "name": "theirs"}, {"mountPath": "/b", "name": "ours"}]
    rule_mount = {"mountPath": "/etc/mpi", "name": "ours"}
    result = fill({"x.at": "/etc/mpi", "x.sshMounts": user_mounts})
    assert result == {"volumeMounts": [rule_mount, user_mounts[1]]}
    sources = [{"configMapRef": {"name": name}} for name in "ab"]
    result = fill({"x.at": "/etc/mpi", "x.sshMounts": ABSENT, "x.sshEnvFrom": sources})
    assert result == {"volumeMounts": [rule_mount], "envFrom": sources}


def test_of_two_mounts_with_the_same_path_the_first_is_kept() -> None:
    """Kubernetes refuses a Pod with two mounts at one path. SSH keys may be at the host file's path."""
    mounts = [{"mountPath": "/etc/mpi"}, {"mountPath": "$(x.at)"}, "$(x.sshMounts)"]
    fill = make_filler({"volumeMounts": mounts})
    assert fill
    assert fill({"x.at": "/etc/mpi", "x.sshMounts": ABSENT}) == {"volumeMounts": [{"mountPath": "/etc/mpi"}]}
