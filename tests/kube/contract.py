"""Tests that the API server in memory and the real API server answer in the same way.

``test_fake.py`` and ``tests/plane/test_api_contract.py`` inherit from the class below. Their fixture
``server`` is the API server under test.
"""

# ruff: noqa: D102 - the name of a test explains it

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from kube.api import ApiError, ConflictError, ForbiddenError, Object
from kube.client import KubernetesApi

TIMEOUT_SECONDS = 10
"""The maximum time in which a closed watch must end."""


@dataclass
class Server:
    """An API server under test.

    Attributes:
        api: The client of a user with all rights.
        namespace: A namespace without ConfigMaps of other tests.
        powerless: The client of a user without rights.
        use_small_pages: Makes lists have pages of two items.
        new_collection: The path of a collection for which version 1 is too old.
        end_watches: Ends a watch with ``timeoutSeconds=4`` in an API server that ignores this timeout.
    """

    api: KubernetesApi
    namespace: str
    powerless: KubernetesApi
    use_small_pages: Callable[[], object]
    new_collection: str
    end_watches: Callable[[], object] = lambda: None

    @property
    def configmaps(self) -> str:
        """The path of the collection that tests write to."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def own_configmaps(self) -> str:
        """The path of the tests' ConfigMaps only. A real API server adds a ConfigMap to each namespace."""
        return f"{self.configmaps}?labelSelector=of%3Dthe-test"

    def create(self, name: str, value: str = "1", **labels: str) -> Object:
        """Creates a ConfigMap."""
        return self.api.create(self.configmaps, configmap(name, value, **labels))

    def collection_version(self) -> str:
        """Returns the version of the collection."""
        version: str = (self.api.get(self.own_configmaps) or {})["metadata"]["resourceVersion"]
        return version

    def watch(self, version: str, query: str = "") -> Any:
        """Begins a watch of the tests' ConfigMaps."""
        return self.api.stream(f"{self.own_configmaps}&watch=1&resourceVersion={version}{query}")


def configmap(name: str, value: str = "1", **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": {"of": "the-test", **labels}}, "data": {"value": value}}


def version_of(raw: Object) -> int:
    return int(raw["metadata"]["resourceVersion"])


def names(items: list[Object]) -> list[str]:
    return [raw["metadata"]["name"] for raw in items]


def take(events: Any, count: int) -> list[tuple[str, str, str]]:
    """Returns type, name and value of the next events."""
    next_events = [next(events) for _ in range(count)]
    return [
        (event["type"], event["object"]["metadata"]["name"], event["object"]["data"]["value"])
        for event in next_events
    ]


class ApiContract:
    """The tests that every API server must pass."""

    def test_a_created_object_has_a_uid_and_is_stored_as_it_was_returned(self, server: Server) -> None:
        document = configmap("one")
        created = server.api.create(server.configmaps, document)
        assert document == configmap("one")
        assert created["data"] == {"value": "1"}
        assert created["metadata"]["namespace"] == server.namespace
        assert created["metadata"]["uid"]
        assert server.api.get(f"{server.configmaps}/one") == created

    def test_an_existing_object_is_not_created_again(self, server: Server) -> None:
        created = server.create("one")
        with pytest.raises(ConflictError, match="exists"):
            server.create("one", "2")
        assert server.api.get(f"{server.configmaps}/one") == created

    def test_an_object_with_a_version_or_without_a_name_is_not_created(self, server: Server) -> None:
        with_version = configmap("one")
        with_version["metadata"]["resourceVersion"] = "1"
        without_name = configmap("")
        del without_name["metadata"]["name"]
        for document in (with_version, without_name):
            with pytest.raises(ApiError) as caught:
                server.api.create(server.configmaps, document)
            assert type(caught.value) is ApiError

    def test_a_missing_object_is_read_as_none(self, server: Server) -> None:
        assert server.api.get(f"{server.configmaps}/one") is None

    def test_a_replacement_of_an_older_version_is_a_conflict(self, server: Server) -> None:
        old = server.create("one")
        new = server.api.replace(f"{server.configmaps}/one", {**old, "data": {"value": "2"}})
        assert version_of(new) > version_of(old)
        assert new["metadata"]["uid"] == old["metadata"]["uid"]
        with pytest.raises(ConflictError):
            server.api.replace(f"{server.configmaps}/one", {**old, "data": {"value": "3"}})
        assert server.api.get(f"{server.configmaps}/one") == new

    def test_a_replacement_without_a_version_replaces_any_version(self, server: Server) -> None:
        created = server.create("one")
        replaced = server.api.replace(f"{server.configmaps}/one", configmap("one", "2"))
        assert replaced["metadata"]["uid"] == created["metadata"]["uid"]
        assert replaced["data"] == {"value": "2"}

    def test_a_replacement_of_a_missing_object_or_with_another_uid_or_name_is_refused(
        self, server: Server
    ) -> None:
        created = server.create("one")
        with pytest.raises(ConflictError):
            server.api.replace(
                f"{server.configmaps}/two", {**created, "metadata": {**created["metadata"], "name": "two"}}
            )
        with pytest.raises(ConflictError):
            server.api.replace(
                f"{server.configmaps}/one", {**created, "metadata": {"name": "one", "uid": "another"}}
            )
        with pytest.raises(ApiError) as caught:
            server.api.replace(f"{server.configmaps}/one", {**created, "metadata": {"name": "two"}})
        assert type(caught.value) is ApiError

    def test_a_write_that_changes_nothing_makes_no_new_version(self, server: Server) -> None:
        created = server.create("one")
        assert server.api.replace(f"{server.configmaps}/one", created) == created
        same = [{"op": "replace", "path": "/data/value", "value": "1"}]
        assert server.api.patch(f"{server.configmaps}/one", same) == created

    def test_a_patch_with_an_older_version_is_a_conflict(self, server: Server) -> None:
        old = server.create("one")
        version = old["metadata"]["resourceVersion"]
        guard = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        change = {"op": "replace", "path": "/data/value", "value": "2"}
        new = server.api.patch(f"{server.configmaps}/one", [guard, change])
        assert new["data"] == {"value": "2"}
        with pytest.raises(ConflictError):
            server.api.patch(f"{server.configmaps}/one", [guard, {**change, "value": "3"}])
        assert server.api.get(f"{server.configmaps}/one") == new

    def test_a_patch_without_a_version_changes_any_version(self, server: Server) -> None:
        server.create("one")
        for value in ("2", "3"):
            change = [{"op": "add", "path": "/data/value", "value": value}]
            assert server.api.patch(f"{server.configmaps}/one", change)["data"] == {"value": value}

    @pytest.mark.parametrize(
        "operation",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
            {"op": "test", "path": "/metadata/uid", "value": "another"},
            {"op": "remove", "path": "/data/other"},
            {"op": "add", "path": "/data/other/inside", "value": "x"},
        ],
        ids=[
            "test of a version",
            "test of a UID",
            "removal of a missing field",
            "field below a missing field",
        ],
    )
    def test_a_patch_with_an_operation_that_fails_changes_nothing(
        self, server: Server, operation: Object
    ) -> None:
        created = server.create("one")
        with pytest.raises(ApiError) as caught:
            server.api.patch(
                f"{server.configmaps}/one", [{"op": "add", "path": "/data/value", "value": "2"}, operation]
            )
        assert type(caught.value) is ApiError  # not a conflict
        assert server.api.get(f"{server.configmaps}/one") == created

    def test_a_patch_of_a_missing_object_is_a_conflict(self, server: Server) -> None:
        with pytest.raises(ConflictError):
            server.api.patch(f"{server.configmaps}/one", [{"op": "add", "path": "/data", "value": {}}])

    def test_a_deleted_object_is_missing_and_can_be_deleted_again(self, server: Server) -> None:
        server.create("one")
        for _ in range(2):
            server.api.delete(f"{server.configmaps}/one")
            assert server.api.get(f"{server.configmaps}/one") is None

    @pytest.mark.parametrize("key", ["uid", "resourceVersion"])
    def test_a_deletion_of_an_older_uid_or_version_is_a_conflict(self, server: Server, key: str) -> None:
        old = server.create("one")
        server.api.delete(f"{server.configmaps}/one")
        new = server.create("one", "2")
        with pytest.raises(ConflictError):
            server.api.delete(f"{server.configmaps}/one", {key: old["metadata"][key]})
        assert server.api.get(f"{server.configmaps}/one") == new
        server.api.delete(f"{server.configmaps}/one", {key: new["metadata"][key]})
        assert server.api.get(f"{server.configmaps}/one") is None

    def test_a_missing_right_is_reported(self, server: Server) -> None:
        created = server.create("one")
        for call in (
            lambda: server.powerless.get(f"{server.configmaps}/one"),
            lambda: server.powerless.create(server.configmaps, configmap("two")),
            lambda: server.powerless.replace(f"{server.configmaps}/one", created),
            lambda: server.powerless.patch(f"{server.configmaps}/one", []),
            lambda: server.powerless.delete(f"{server.configmaps}/one"),
        ):
            with pytest.raises(ForbiddenError, match=f"{server.configmaps}.*: 403 .*forbidden"):
                call()
        assert server.api.get(f"{server.configmaps}/one") == created

    def test_a_list_is_sorted_by_name_and_selects_by_label_field_and_namespace(self, server: Server) -> None:
        assert (server.api.get(server.own_configmaps) or {})["items"] == []
        for name in ("two", "one", "three"):
            server.create(name, role="x" if name == "two" else "y")
        for path, expected in (
            (server.own_configmaps, ["one", "three", "two"]),
            ("/api/v1/configmaps?labelSelector=of%3Dthe-test", ["one", "three", "two"]),
            (f"{server.own_configmaps}%2Crole%3Dy", ["one", "three"]),
            (f"{server.own_configmaps}&fieldSelector=metadata.name!%3Done%2Cmetadata.name!%3Dtwo", ["three"]),
            (f"{server.configmaps}?fieldSelector=metadata.name%3Done", ["one"]),
        ):
            assert names((server.api.get(path) or {})["items"]) == expected, path

    def test_all_pages_of_a_list_have_the_same_version(self, server: Server) -> None:
        server.use_small_pages()
        for name in ("a", "b", "c", "e"):
            server.create(name)
        pages = server.api.pages(server.own_configmaps)
        first = next(pages)
        server.create("d")
        server.api.delete(f"{server.configmaps}/e")
        all_pages = [first, *pages]
        # The last page may be empty, if the remaining objects do not match the selector.
        assert [names(page["items"]) for page in all_pages if page["items"]] == [["a", "b"], ["c", "e"]]
        assert len({version_of(page) for page in all_pages}) == 1

    def test_a_watch_sends_the_changes_since_a_version_in_order(self, server: Server) -> None:
        server.create("before")
        version = server.collection_version()
        created = server.create("one")
        new = server.api.replace(f"{server.configmaps}/one", {**created, "data": {"value": "2"}})
        server.api.replace(f"{server.configmaps}/one", new)
        server.api.delete(f"{server.configmaps}/one")
        server.create("two")
        with server.watch(version) as stream:
            events = iter(stream)
            first_events = [next(events) for _ in range(4)]
            server.create("three")
            assert take(events, 1) == [("ADDED", "three", "1")]
        assert [event["type"] for event in first_events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
        assert [event["object"] for event in first_events[:2]] == [created, new]
        versions = [version_of(event["object"]) for event in first_events]
        assert versions == sorted(set(versions))
        assert first_events[2]["object"]["data"] == {"value": "2"}

    def test_objects_that_begin_or_cease_to_match_a_selector_are_added_and_deleted(
        self, server: Server
    ) -> None:
        unselected = server.api.create(
            server.configmaps, {"metadata": {"name": "one"}, "data": {"value": "1"}}
        )
        version = server.collection_version()
        selected = server.api.replace(
            f"{server.configmaps}/one",
            {**configmap("one", "2"), "metadata": {**configmap("one")["metadata"]}},
        )
        server.api.replace(
            f"{server.configmaps}/one", {**selected, "metadata": {"name": "one"}, "data": unselected["data"]}
        )
        with server.watch(version) as stream:
            # The event for an object that no longer matches has the object's old state.
            assert take(iter(stream), 2) == [("ADDED", "one", "2"), ("DELETED", "one", "2")]

    def test_a_watch_ends_with_a_bookmark_of_the_newest_version(self, server: Server) -> None:
        # The API server sends the bookmark two seconds before the end, so the test repeats slow writes.
        for number in itertools.count():
            version, begin = server.collection_version(), time.monotonic()
            with server.watch(version, "&allowWatchBookmarks=true&timeoutSeconds=4") as stream:
                server.create(f"one-{number}")
                server.api.create(server.configmaps, {"metadata": {"name": f"not-selected-{number}"}})
                newest = version_of(server.create(f"two-{number}"))
                duration = time.monotonic() - begin
                server.end_watches()
                events = list(stream)
            if duration < 1:
                break
        changes = [event["object"]["metadata"]["name"] for event in events if event["type"] != "BOOKMARK"]
        assert changes == [f"one-{number}", f"two-{number}"]
        assert events[-1]["type"] == "BOOKMARK"
        assert version_of(events[-1]["object"]) >= newest

    def test_a_watch_from_a_version_that_is_too_old_is_an_error(self, server: Server) -> None:
        with server.api.stream(f"{server.new_collection}?watch=1&resourceVersion=1") as stream:
            (event,) = stream
        assert event["type"] == "ERROR"
        assert (event["object"]["kind"], event["object"]["code"]) == ("Status", 410)

    def test_a_watch_can_be_ended_from_another_thread(self, server: Server) -> None:
        with server.watch(server.collection_version()) as stream, ThreadPoolExecutor() as threads:
            reader = threads.submit(list, stream)
            stream.close()
            # The watch may end with the error of a broken connection.
            assert isinstance(reader.exception(TIMEOUT_SECONDS), ApiError | None)
