"""What every API server answers (`kube.client.KubernetesApi`): the one in memory and the real one.

``test_fake.py`` and ``tests/plane/test_api_contract.py`` import the class below, and say by the fixture
``server`` which API server it is.
"""

# ruff: noqa: D102 - a case says by its name what it is

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from kube.api import ApiError, ConflictError, ForbiddenError, Object
from kube.client import KubernetesApi

SECONDS = 10
"""Within which an event comes."""


@dataclass
class Server:
    """An API server under test.

    Attributes:
        api: Its calls.
        namespace: One without ConfigMaps of the tests.
        refused: Its calls for a user who may do nothing.
        two_to_a_page: Has lists come in pages of two.
        young: A collection that began after the version 1.
        end_watches: Ends a watch that was asked for with ``timeoutSeconds=4``, if time alone does not.
    """

    api: KubernetesApi
    namespace: str
    refused: KubernetesApi
    two_to_a_page: Callable[[], object]
    young: str
    end_watches: Callable[[], object] = lambda: None

    @property
    def things(self) -> str:
        """The collection that tests write to."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def mine(self) -> str:
        """What is theirs in it: the real one has a ConfigMap of its own in each namespace."""
        return f"{self.things}?labelSelector=of%3Dthe-test"

    def create(self, name: str, value: str = "1", **labels: str) -> Object:
        """Creates one."""
        return self.api.create(self.things, thing(name, value, **labels))

    def listed(self) -> str:
        """Returns the version of the collection."""
        version: str = (self.api.get(self.mine) or {})["metadata"]["resourceVersion"]
        return version

    def watch(self, version: str, query: str = "") -> Any:
        """Begins a watch."""
        return self.api.stream(f"{self.mine}&watch=1&resourceVersion={version}{query}")


def thing(name: str, value: str = "1", **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": {"of": "the-test", **labels}}, "data": {"value": value}}


def version_of(raw: Object) -> int:
    return int(raw["metadata"]["resourceVersion"])


def names(items: list[Object]) -> list[str]:
    return [raw["metadata"]["name"] for raw in items]


def take(events: Any, count: int) -> list[tuple[str, str, str]]:
    """Returns type, name and value of the next events."""
    entries = [next(events) for _ in range(count)]
    return [
        (one["type"], one["object"]["metadata"]["name"], one["object"]["data"]["value"]) for one in entries
    ]


class ApiContract:
    """The cases."""

    def test_what_is_created_has_an_identity_and_is_read_as_it_was_answered(self, server: Server) -> None:
        wanted = thing("one")
        made = server.api.create(server.things, wanted)
        assert wanted == thing("one")
        assert made["data"] == {"value": "1"}
        assert made["metadata"]["namespace"] == server.namespace
        assert made["metadata"]["uid"]
        assert server.api.get(f"{server.things}/one") == made

    def test_what_exists_is_not_created_again(self, server: Server) -> None:
        made = server.create("one")
        with pytest.raises(ConflictError, match="exists"):
            server.create("one", "2")
        assert server.api.get(f"{server.things}/one") == made

    def test_what_has_a_version_or_no_name_is_not_created(self, server: Server) -> None:
        read = thing("one")
        read["metadata"]["resourceVersion"] = "1"
        nameless = thing("")
        del nameless["metadata"]["name"]
        for wrong in (read, nameless):
            with pytest.raises(ApiError) as caught:
                server.api.create(server.things, wrong)
            assert type(caught.value) is ApiError

    def test_what_is_absent_is_none(self, server: Server) -> None:
        assert server.api.get(f"{server.things}/one") is None

    def test_a_replacement_is_for_the_version_that_was_read(self, server: Server) -> None:
        old = server.create("one")
        new = server.api.replace(f"{server.things}/one", {**old, "data": {"value": "2"}})
        assert version_of(new) > version_of(old)
        assert new["metadata"]["uid"] == old["metadata"]["uid"]
        with pytest.raises(ConflictError):
            server.api.replace(f"{server.things}/one", {**old, "data": {"value": "3"}})
        assert server.api.get(f"{server.things}/one") == new

    def test_a_replacement_without_a_version_is_for_any(self, server: Server) -> None:
        made = server.create("one")
        replaced = server.api.replace(f"{server.things}/one", thing("one", "2"))
        assert replaced["metadata"]["uid"] == made["metadata"]["uid"]
        assert replaced["data"] == {"value": "2"}

    def test_what_is_another_object_or_absent_is_not_replaced(self, server: Server) -> None:
        made = server.create("one")
        with pytest.raises(ConflictError):
            server.api.replace(
                f"{server.things}/two", {**made, "metadata": {**made["metadata"], "name": "two"}}
            )
        with pytest.raises(ConflictError):
            server.api.replace(
                f"{server.things}/one", {**made, "metadata": {"name": "one", "uid": "another"}}
            )
        with pytest.raises(ApiError) as caught:
            server.api.replace(f"{server.things}/one", {**made, "metadata": {"name": "two"}})
        assert type(caught.value) is ApiError

    def test_a_write_that_changes_nothing_makes_no_new_version(self, server: Server) -> None:
        made = server.create("one")
        assert server.api.replace(f"{server.things}/one", made) == made
        same = [{"op": "replace", "path": "/data/value", "value": "1"}]
        assert server.api.patch(f"{server.things}/one", same) == made

    def test_a_guarded_patch_is_for_the_version_that_was_read(self, server: Server) -> None:
        old = server.create("one")
        version = old["metadata"]["resourceVersion"]
        guard = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        change = {"op": "replace", "path": "/data/value", "value": "2"}
        new = server.api.patch(f"{server.things}/one", [guard, change])
        assert new["data"] == {"value": "2"}
        with pytest.raises(ConflictError):
            server.api.patch(f"{server.things}/one", [guard, {**change, "value": "3"}])
        assert server.api.get(f"{server.things}/one") == new

    def test_an_unguarded_patch_is_for_any_version(self, server: Server) -> None:
        server.create("one")
        for value in ("2", "3"):
            change = [{"op": "add", "path": "/data/value", "value": value}]
            assert server.api.patch(f"{server.things}/one", change)["data"] == {"value": value}

    @pytest.mark.parametrize(
        "operation",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
            {"op": "test", "path": "/metadata/uid", "value": "another"},
            {"op": "remove", "path": "/data/other"},
            {"op": "add", "path": "/data/other/inside", "value": "x"},
        ],
        ids=["test of a version", "test of an identity", "remove what is not there", "add below nothing"],
    )
    def test_a_patch_with_a_part_that_does_not_apply_changes_nothing(
        self, server: Server, operation: Object
    ) -> None:
        made = server.create("one")
        with pytest.raises(ApiError) as caught:
            server.api.patch(
                f"{server.things}/one", [{"op": "add", "path": "/data/value", "value": "2"}, operation]
            )
        assert type(caught.value) is ApiError  # not a conflict
        assert server.api.get(f"{server.things}/one") == made

    def test_what_is_absent_is_not_patched(self, server: Server) -> None:
        with pytest.raises(ConflictError):
            server.api.patch(f"{server.things}/one", [{"op": "add", "path": "/data", "value": {}}])

    def test_what_is_deleted_is_gone_and_may_be_deleted_again(self, server: Server) -> None:
        server.create("one")
        for _ in range(2):
            server.api.delete(f"{server.things}/one")
            assert server.api.get(f"{server.things}/one") is None

    @pytest.mark.parametrize("key", ["uid", "resourceVersion"])
    def test_a_deletion_is_of_what_was_read(self, server: Server, key: str) -> None:
        old = server.create("one")
        server.api.delete(f"{server.things}/one")
        new = server.create("one", "2")
        with pytest.raises(ConflictError):
            server.api.delete(f"{server.things}/one", {key: old["metadata"][key]})
        assert server.api.get(f"{server.things}/one") == new
        server.api.delete(f"{server.things}/one", {key: new["metadata"][key]})
        assert server.api.get(f"{server.things}/one") is None

    def test_a_missing_right_is_reported(self, server: Server) -> None:
        made = server.create("one")
        for call in (
            lambda: server.refused.get(f"{server.things}/one"),
            lambda: server.refused.create(server.things, thing("two")),
            lambda: server.refused.replace(f"{server.things}/one", made),
            lambda: server.refused.patch(f"{server.things}/one", []),
            lambda: server.refused.delete(f"{server.things}/one"),
        ):
            with pytest.raises(ForbiddenError, match=f"{server.things}.*: 403 .*forbidden"):
                call()
        assert server.api.get(f"{server.things}/one") == made

    def test_a_list_is_in_order_and_selected_by_label_field_and_namespace(self, server: Server) -> None:
        assert (server.api.get(server.mine) or {})["items"] == []
        for name in ("two", "one", "three"):
            server.create(name, role="x" if name == "two" else "y")
        for path, expected in (
            (server.mine, ["one", "three", "two"]),
            ("/api/v1/configmaps?labelSelector=of%3Dthe-test", ["one", "three", "two"]),
            (f"{server.mine}%2Crole%3Dy", ["one", "three"]),
            (f"{server.mine}&fieldSelector=metadata.name!%3Done%2Cmetadata.name!%3Dtwo", ["three"]),
            (f"{server.things}?fieldSelector=metadata.name%3Done", ["one"]),
        ):
            assert names((server.api.get(path) or {})["items"]) == expected, path

    def test_pages_of_a_list_have_one_version(self, server: Server) -> None:
        server.two_to_a_page()
        for name in ("a", "b", "c", "e"):
            server.create(name)
        pages = server.api.pages(server.mine)
        first = next(pages)
        server.create("d")
        server.api.delete(f"{server.things}/e")
        entries = [first, *pages]
        # The last page may be empty: more was stored, but not of what is selected.
        assert [names(page["items"]) for page in entries if page["items"]] == [["a", "b"], ["c", "e"]]
        assert len({version_of(page) for page in entries}) == 1

    def test_a_watch_sends_the_changes_since_a_version_in_order(self, server: Server) -> None:
        server.create("before")
        version = server.listed()
        made = server.create("one")
        new = server.api.replace(f"{server.things}/one", {**made, "data": {"value": "2"}})
        server.api.replace(f"{server.things}/one", new)
        server.api.delete(f"{server.things}/one")
        server.create("two")
        with server.watch(version) as stream:
            events = iter(stream)
            entries = [next(events) for _ in range(4)]
            server.create("three")
            assert take(events, 1) == [("ADDED", "three", "1")]
        assert [one["type"] for one in entries] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
        assert [one["object"] for one in entries[:2]] == [made, new]
        versions = [version_of(one["object"]) for one in entries]
        assert versions == sorted(set(versions))
        assert entries[2]["object"]["data"] == {"value": "2"}

    def test_objects_that_begin_or_cease_to_match_a_selector_are_added_and_removed(
        self, server: Server
    ) -> None:
        other = server.api.create(server.things, {"metadata": {"name": "one"}, "data": {"value": "1"}})
        version = server.listed()
        mine = server.api.replace(
            f"{server.things}/one", {**thing("one", "2"), "metadata": {**thing("one")["metadata"]}}
        )
        server.api.replace(
            f"{server.things}/one", {**mine, "metadata": {"name": "one"}, "data": other["data"]}
        )
        with server.watch(version) as stream:
            # The event about an object that is no longer selected has its old state.
            assert take(iter(stream), 2) == [("ADDED", "one", "2"), ("DELETED", "one", "2")]

    def test_a_watch_ends_with_how_far_it_came(self, server: Server) -> None:
        # The API server says it two seconds before the end: of what comes later it says nothing.
        for name in itertools.count():
            version, begin = server.listed(), time.monotonic()
            with server.watch(version, "&allowWatchBookmarks=true&timeoutSeconds=4") as stream:
                server.create(f"one-{name}")
                server.api.create(server.things, {"metadata": {"name": f"not-selected-{name}"}})
                newest = version_of(server.create(f"two-{name}"))
                took = time.monotonic() - begin
                server.end_watches()
                events = list(stream)
            if took < 1:
                break
        changes = [one["object"]["metadata"]["name"] for one in events if one["type"] != "BOOKMARK"]
        assert changes == [f"one-{name}", f"two-{name}"]
        assert events[-1]["type"] == "BOOKMARK"
        assert version_of(events[-1]["object"]) >= newest

    def test_a_watch_from_a_version_that_is_too_old_is_an_error(self, server: Server) -> None:
        with server.api.stream(f"{server.young}?watch=1&resourceVersion=1") as stream:
            (event,) = stream
        assert event["type"] == "ERROR"
        assert (event["object"]["kind"], event["object"]["code"]) == ("Status", 410)

    def test_a_watch_can_be_ended_from_another_thread(self, server: Server) -> None:
        with server.watch(server.listed()) as stream, ThreadPoolExecutor() as threads:
            reader = threads.submit(list, stream)
            stream.close()
            # It may end as a connection does that breaks.
            assert isinstance(reader.exception(SECONDS), ApiError | None)
