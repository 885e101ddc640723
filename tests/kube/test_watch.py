"""Tests of a mirror: lists, changes, bookmarks, versions that are too old, connections that break.

``tests/plane/test_watch.py`` tests a mirror of the real API server.
"""

import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kube import messages
from kube.api import GoneError, Object
from kube.backoff import JITTER
from kube.watch import NOT_SERVED_SECONDS, SHORT_SECONDS, STALE_SECONDS, Mirror
from testbed.waiting import PATIENCE
from tests.kube.fake import FakeApi

NODES = "/api/v1/nodes"


def labels(raw: Object) -> dict[str, str]:
    result: dict[str, str] = raw["metadata"]["labels"]
    return result


@dataclass
class SimulatedMirror:
    """A mirror of nodes that runs in the test's own thread, with a clock that its waits move.

    Attributes:
        api: The API server.
        waits: The seconds of each wait between two attempts.
        states: At each change, the items of the mirror by name, and why the mirror may be stale.
    """

    api: FakeApi
    path: str = NODES
    project: Callable[[Object], Any] = labels
    unserved: str = ""
    now: float = 1000.0
    waits: list[float] = field(default_factory=list)
    states: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    _steps: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Creates the mirror, but does not start it."""
        self.mirror = Mirror(
            self.api,
            self.path,
            self.project,
            self._record_state,
            unserved=self.unserved,
            clock=lambda: self.now,
            wait=self._wait,
        )

    def run(self, *steps: Callable[[], object]) -> list[tuple[dict[str, Any], str]]:
        """Runs the mirror, and the next step whenever it has read all events or waits. Returns the states."""
        self._steps = [*steps, self.mirror.stop]
        self.api.idle = self._step
        self.mirror.follow()
        assert not self._steps
        return self.states

    def versions(self) -> list[str]:
        """Returns the version from which each watch began."""
        queries = [parse_qs(urlsplit(path).query) for path in self.api.paths]
        return [query["resourceVersion"][0] for query in queries if "watch" in query]

    def _record_state(self) -> None:
        items = {name: item for (_, name), item in self.mirror.items().items()}
        self.states.append((items, self.mirror.stale_reason))

    def _wait(self, stopped: threading.Event, seconds: float) -> bool:
        if not stopped.is_set():
            self.waits.append(seconds)
            self.now += seconds
            self._step()
        return stopped.is_set()

    def _step(self) -> None:
        if self._steps:
            self._steps.pop(0)()


def put_node(api: FakeApi, name: str, **node_labels: str) -> str:
    """Writes a node as another client, and returns its version."""
    api.put(f"{NODES}/{name}", {"metadata": {"name": name, "labels": node_labels}, "status": {"a": 1}})
    version: str = api.objects[f"{NODES}/{name}"]["metadata"]["resourceVersion"]
    return version


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi(page=1)
    put_node(api, "a", x="1")
    put_node(api, "b")
    return api


def test_a_mirror_has_the_projections_of_the_listed_objects_and_of_each_change(api: FakeApi) -> None:
    states = SimulatedMirror(api).run(
        lambda: put_node(api, "c"), lambda: put_node(api, "a", x="2"), lambda: api.remove(f"{NODES}/b")
    )
    assert states == [
        ({"a": {"x": "1"}, "b": {}}, ""),
        ({"a": {"x": "1"}, "b": {}, "c": {}}, ""),
        ({"a": {"x": "2"}, "b": {}, "c": {}}, ""),
        ({"a": {"x": "2"}, "c": {}}, ""),
    ]
    assert "allowWatchBookmarks=true" in api.paths[1]


def test_a_watch_that_ends_continues_from_the_last_version_or_bookmark(api: FakeApi) -> None:
    simulation, first = SimulatedMirror(api), int(put_node(api, "c"))

    def end() -> None:
        api.put("/api/v1/pods/other", {"metadata": {"name": "other"}})
        api.end_watches()

    assert simulation.run(end, lambda: put_node(api, "d"))[-1] == (
        {"a": {"x": "1"}, "b": {}, "c": {}, "d": {}},
        "",
    )
    assert simulation.versions() == [str(first), str(first + 1)]
    assert simulation.waits == []


@pytest.mark.parametrize("as_status", [False, True], ids=["error event", "error status"])
def test_the_collection_is_listed_again_after_a_version_that_is_too_old(
    api: FakeApi,
    as_status: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = api.stream

    def refuse(path: str) -> None:
        monkeypatch.setattr(api, "stream", stream)
        raise GoneError(f"{path}: 410")

    def forget() -> None:
        api.remove(f"{NODES}/a")
        if as_status:
            monkeypatch.setattr(api, "stream", refuse)
            api.end_watches()
        else:
            api.forget()

    simulation = SimulatedMirror(api)
    # The second watch begins at a version that is too old. The mirror lists again, without a wait.
    simulation.run(api.end_watches, forget, lambda: put_node(api, "c"))
    assert simulation.waits == []
    assert [path for path in api.paths if "watch" not in path] == [NODES, NODES]
    assert simulation.states[-2:] == [({"b": {}}, ""), ({"b": {}, "c": {}}, "")]


def test_after_a_failure_the_watch_continues_from_the_last_version(api: FakeApi) -> None:
    api.refuse = NODES
    simulation, versions = SimulatedMirror(api), []
    states = simulation.run(
        lambda: setattr(api, "refuse", ""),
        lambda: versions.append(put_node(api, "c")),
        lambda: api.end_watches("reset"),
        lambda: None,
        lambda: put_node(api, "d"),
    )
    listed_nodes = {"a": {"x": "1"}, "b": {}}
    more_nodes = {**listed_nodes, "c": {}}
    assert "403" in states[0][1]
    # The copy is up to date again even before the next change.
    assert states[1:] == [
        (listed_nodes, ""),
        (more_nodes, ""),
        (more_nodes, "reset"),
        (more_nodes, ""),
        ({**more_nodes, "d": {}}, ""),
    ]
    assert simulation.versions()[-1] == versions[0]
    assert len(simulation.waits) == 2


def test_an_error_event_of_a_watch_makes_the_copy_stale(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = [{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "because"}}]
    states = SimulatedMirror(api).run(
        lambda: monkeypatch.setattr(api, "events_since", lambda version, _: (version, message)),
        monkeypatch.undo,
    )
    assert [reason for _, reason in states] == ["", f"{NODES}: because", ""]


def test_waits_grow_until_an_event_comes(api: FakeApi) -> None:
    api.refuse = NODES
    simulation = SimulatedMirror(api)
    simulation.run(
        *[lambda: None] * 3,
        lambda: setattr(api, "refuse", ""),
        lambda: put_node(api, "c"),
        lambda: api.end_watches("reset"),
        lambda: None,
    )
    assert simulation.waits == [pytest.approx(seconds, rel=JITTER) for seconds in (0.5, 1, 2, 4, 0.5)]


@pytest.mark.parametrize(
    ("watch_seconds", "waits"),
    [(0.0, (0.5, 1, 2, 4, 8, 16, 30)), (SHORT_SECONDS, ())],
    ids=["short watches", "long watches"],
)
def test_after_watches_that_end_at_once_the_waits_grow(
    api: FakeApi, watch_seconds: float, waits: tuple[float, ...]
) -> None:
    simulation = SimulatedMirror(api)
    ended_watches = 0

    def end() -> None:
        nonlocal ended_watches
        simulation.now += watch_seconds
        ended_watches += 1
        if ended_watches == 9:
            simulation.mirror.stop()
        api.end_watches(bookmark=False)

    api.idle = end
    simulation.mirror.follow()
    assert len(simulation.states) == 1
    assert simulation.waits == [pytest.approx(seconds, rel=JITTER) for seconds in waits]
    assert len(simulation.versions()) == 9


def test_the_selector_of_a_path_is_used_for_the_list_and_the_watch(api: FakeApi) -> None:
    simulation = SimulatedMirror(api, f"{NODES}?fieldSelector=metadata.name!%3Da")
    assert simulation.run(lambda: put_node(api, "a"), lambda: put_node(api, "c")) == [
        ({"b": {}}, ""),
        ({"b": {}, "c": {}}, ""),
    ]


def test_objects_with_the_projection_none_are_not_kept(api: FakeApi) -> None:
    simulation = SimulatedMirror(api, project=lambda raw: labels(raw) or None)
    assert simulation.run(lambda: put_node(api, "a")) == [({"a": {"x": "1"}}, ""), ({}, "")]


def test_a_change_of_fields_that_are_not_kept_is_not_reported(api: FakeApi) -> None:
    other = {"metadata": {"name": "a", "labels": {"x": "1"}}, "status": {"a": 2}}
    states = SimulatedMirror(api).run(lambda: api.put(f"{NODES}/a", other), lambda: put_node(api, "a", x="2"))
    assert [items["a"]["x"] for items, _ in states] == ["1", "2"]


@dataclass
class VersionedLabels:
    """The labels of a node and its version. Two values with the same labels are equal."""

    node_labels: dict[str, str]
    version: str = field(compare=False)


def test_an_item_that_differs_only_in_ignored_fields_is_replaced(api: FakeApi) -> None:
    """Protects the deletion of pods, which needs the newest version even if only ignored fields changed."""
    simulation = SimulatedMirror(
        api, project=lambda raw: VersionedLabels(labels(raw), raw["metadata"]["resourceVersion"])
    )
    versions: list[str] = []
    simulation.run(lambda: versions.append(put_node(api, "a", x="1")))
    assert [simulation.mirror.items()["", "a"].version] == versions


def test_a_mirror_that_is_stopped_while_a_watch_begins_ends(api: FakeApi) -> None:
    simulation = SimulatedMirror(api)
    mirror = Mirror(api, NODES, labels, lambda: (simulation.mirror.stop(), put_node(api, "c")))
    simulation.mirror = mirror
    mirror.follow()
    assert ("", "c") not in mirror.items()


# ---- With a thread -----------------------------------------------------------------------------------------


@pytest.fixture
def changed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def running_mirror(api: FakeApi, changed: threading.Event) -> Iterator[Mirror[dict[str, str]]]:
    mirror = Mirror(api, NODES, labels, changed.set)
    assert not mirror.wait(0)
    with mirror:
        assert mirror.wait(PATIENCE)
        assert changed.wait(PATIENCE)
        changed.clear()
        yield mirror


def test_a_caller_can_change_the_returned_items(
    api: FakeApi, running_mirror: Mirror[dict[str, str]], changed: threading.Event
) -> None:
    running_mirror.items().clear()
    assert running_mirror.items() == {("", "a"): {"x": "1"}, ("", "b"): {}}
    api.remove(f"{NODES}/a")
    assert changed.wait(PATIENCE)
    assert running_mirror.items() == {("", "b"): {}}


def test_a_mirror_whose_thread_failed_stays_stale(
    api: FakeApi, running_mirror: Mirror[dict[str, str]], changed: threading.Event
) -> None:
    running_mirror.check()
    api.put(f"{NODES}/a", {"metadata": {"name": "a"}})  # has no labels
    assert changed.wait(PATIENCE)
    assert running_mirror.stale_reason == messages.WATCH_ENDED
    with pytest.raises(RuntimeError, match=messages.not_watched(NODES)) as raised:
        running_mirror.check()
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_long_list_is_read_page_by_page_into_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    many_labels = {f"label-{number}": "x" * 50 for number in range(40)}
    item = json.dumps({"metadata": {"name": "%s", "resourceVersion": "5", "labels": many_labels}})

    def pages(_: str) -> Iterator[Object]:
        for number in range(10):
            items = [json.loads(item % f"{number}-{index}") for index in range(20)]
            yield {"metadata": {"resourceVersion": "5"}, "items": items}
        yield {"metadata": {"resourceVersion": "5"}, "items": None}

    api = FakeApi()
    monkeypatch.setattr(api, "pages", pages)
    tracemalloc.start()
    next(pages(NODES))
    bytes_of_one_page = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    mirror = Mirror(api, NODES, lambda raw: raw["metadata"]["resourceVersion"], lambda: mirror.stop())  # noqa: PLW0108
    mirror.follow()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(mirror.items()) == 10 * 20
    assert peak < 3 * bytes_of_one_page


def test_a_collection_that_is_not_served_is_empty_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApi()
    api.put(f"{NODES}/a", {"metadata": {"name": "a", "labels": {}}})
    simulation, served = SimulatedMirror(api, unserved="it is empty"), list[bool]()
    monkeypatch.setattr(api, "get", lambda _: {} if served else None)
    listed = list[bool]()
    states = simulation.run(
        lambda: listed.append(simulation.mirror.wait(0)), lambda: served.append(True), lambda: None
    )
    assert (listed, states[0], states[-1]) == ([True], ({}, ""), ({"a": {}}, ""))
    assert simulation.waits == [NOT_SERVED_SECONDS] * 2
    assert caplog.messages == [f"{NODES} is not served: it is empty"]


def test_a_collection_that_is_no_longer_served_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    api.put(f"{NODES}/a", {"metadata": {"name": "a", "labels": {}}})
    simulation = SimulatedMirror(api, unserved="it is empty")

    def end() -> None:
        monkeypatch.setattr(api, "get", lambda _: None)
        api.refuse = "watch"
        api.end_watches("gone")

    states = simulation.run(end, lambda: None)
    assert (states[0], states[-1]) == (({"a": {}}, ""), ({}, ""))


def test_after_a_long_outage_a_copy_is_stale_until_it_is_listed_again(api: FakeApi) -> None:
    """Protects programs from decisions about the state before the outage."""
    simulation = SimulatedMirror(api)

    def outage() -> None:
        put_node(api, "new")
        api.forget()
        api.refuse = ""

    simulation.run(
        lambda: setattr(api, "refuse", NODES),
        lambda: api.end_watches("reset"),
        *[lambda: None] * 5,
        outage,
        lambda: None,
    )
    first_stale = [reason for _, reason in simulation.states].index(
        next(reason for _, reason in simulation.states if reason)
    )
    assert all("new" in items for items, reason in simulation.states[first_stale:] if not reason)


def test_a_copy_whose_watches_break_as_soon_as_they_begin_is_listed_again(api: FakeApi) -> None:
    """A watch that breaks at once has no events, so the copy is only as new as the last event."""
    simulation = SimulatedMirror(api)
    steps = [lambda: api.end_watches("reset", bookmark=False), lambda: None] * 5
    simulation.run(*steps)
    assert sum(simulation.waits) > STALE_SECONDS > max(simulation.waits)
    assert sum("watch=1" not in path for path in api.paths) > 1
