"""A collection is followed: lists, changes, bookmarks, versions that are too old, connections that break.

The real API server is followed in ``tests/plane/test_watch.py``.
"""

import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

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
class Followed:
    """Nodes that are followed in the test's own thread, on a clock that waits move.

    Attributes:
        api: The API server.
        waits: How long was waited between two tries.
        shown: What the mirror had, by name, and why it may have been stale, at each change.
    """

    api: FakeApi
    path: str = NODES
    project: Callable[[Object], Any] = labels
    unserved: str = ""
    now: float = 1000.0
    waits: list[float] = field(default_factory=list)
    shown: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    _steps: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begins nothing yet."""
        self.mirror = Mirror(
            self.api,
            self.path,
            self.project,
            self._told,
            unserved=self.unserved,
            clock=lambda: self.now,
            wait=self._wait,
        )

    def run(self, *steps: Callable[[], object]) -> list[tuple[dict[str, Any], str]]:
        """Returns follows; takes a step when there is nothing more to say, and with each wait; then stops."""
        self._steps = [*steps, self.mirror.stop]
        self.api.idle = self._step
        self.mirror.follow()
        assert not self._steps
        return self.shown

    def versions(self) -> list[str]:
        """Returns from which version each watch began."""
        queries = [parse_qs(urlsplit(path).query) for path in self.api.paths]
        return [query["resourceVersion"][0] for query in queries if "watch" in query]

    def _told(self) -> None:
        items = {name: item for (_, name), item in self.mirror.items().items()}
        self.shown.append((items, self.mirror.stale_reason))

    def _wait(self, stopped: threading.Event, seconds: float) -> bool:
        if not stopped.is_set():
            self.waits.append(seconds)
            self.now += seconds
            self._step()
        return stopped.is_set()

    def _step(self) -> None:
        if self._steps:
            self._steps.pop(0)()


def put(api: FakeApi, name: str, **own: str) -> str:
    """Returns a node as a user writes it; its version."""
    api.put(f"{NODES}/{name}", {"metadata": {"name": name, "labels": own}, "status": {"a": 1}})
    version: str = api.objects[f"{NODES}/{name}"]["metadata"]["resourceVersion"]
    return version


@pytest.fixture
def api() -> FakeApi:
    made = FakeApi(page=1)
    put(made, "a", x="1")
    put(made, "b")
    return made


def test_a_list_and_then_what_changes_each_projected(api: FakeApi) -> None:
    shown = Followed(api).run(
        lambda: put(api, "c"), lambda: put(api, "a", x="2"), lambda: api.remove(f"{NODES}/b")
    )
    assert shown == [
        ({"a": {"x": "1"}, "b": {}}, ""),
        ({"a": {"x": "1"}, "b": {}, "c": {}}, ""),
        ({"a": {"x": "2"}, "b": {}, "c": {}}, ""),
        ({"a": {"x": "2"}, "c": {}}, ""),
    ]
    assert "allowWatchBookmarks=true" in api.paths[1]


def test_a_watch_that_ends_continues_from_the_last_version_or_bookmark(api: FakeApi) -> None:
    followed, first = Followed(api), int(put(api, "c"))

    def end() -> None:
        api.put("/api/v1/pods/other", {"metadata": {"name": "other"}})
        api.end_watches()

    assert followed.run(end, lambda: put(api, "d"))[-1] == ({"a": {"x": "1"}, "b": {}, "c": {}, "d": {}}, "")
    assert followed.versions() == [str(first), str(first + 1)]
    assert followed.waits == []


@pytest.mark.parametrize("as_the_answer", [False, True], ids=["as an event", "as the answer"])
def test_a_version_that_is_too_old_is_listed_again(
    api: FakeApi,
    as_the_answer: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = api.stream

    def refuse(path: str) -> None:
        monkeypatch.setattr(api, "stream", stream)
        raise GoneError(f"{path}: 410")

    def forget() -> None:
        api.remove(f"{NODES}/a")
        if as_the_answer:
            monkeypatch.setattr(api, "stream", refuse)
            api.end_watches()
        else:
            api.forget()

    followed = Followed(api)
    # Not in the first watch, which has just listed: the second one lists again, without a wait.
    followed.run(api.end_watches, forget, lambda: put(api, "c"))
    assert followed.waits == []
    assert [path for path in api.paths if "watch" not in path] == [NODES, NODES]
    assert followed.shown[-2:] == [({"b": {}}, ""), ({"b": {}, "c": {}}, "")]


def test_failures_are_logged_and_retried_from_the_last_version(api: FakeApi) -> None:
    api.refuse = NODES
    followed, versions = Followed(api), []
    shown = followed.run(
        lambda: setattr(api, "refuse", ""),
        lambda: versions.append(put(api, "c")),
        lambda: api.end_watches("reset"),
        lambda: None,
        lambda: put(api, "d"),
    )
    listed = {"a": {"x": "1"}, "b": {}}
    more = {**listed, "c": {}}
    assert "403" in shown[0][1]
    # Before any change the copy counts as up to date again.
    assert shown[1:] == [(listed, ""), (more, ""), (more, "reset"), (more, ""), ({**more, "d": {}}, "")]
    assert followed.versions()[-1] == versions[0]
    assert len(followed.waits) == 2


def test_an_error_event_of_a_watch_is_a_failure(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    message = [{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "because"}}]
    shown = Followed(api).run(
        lambda: monkeypatch.setattr(api, "said_since", lambda version, _: (version, message)),
        monkeypatch.undo,
    )
    assert [lost for _, lost in shown] == ["", f"{NODES}: because", ""]


def test_waits_grow_until_an_event_comes(api: FakeApi) -> None:
    api.refuse = NODES
    followed = Followed(api)
    followed.run(
        *[lambda: None] * 3,
        lambda: setattr(api, "refuse", ""),
        lambda: put(api, "c"),
        lambda: api.end_watches("reset"),
        lambda: None,
    )
    assert followed.waits == [pytest.approx(about, rel=JITTER) for about in (0.5, 1, 2, 4, 0.5)]


@pytest.mark.parametrize(
    ("lasts", "waits"), [(0.0, (0.5, 1, 2, 4, 8, 16, 30)), (SHORT_SECONDS, ())], ids=["at once", "in time"]
)
def test_an_api_server_that_ends_every_watch_at_once_is_not_asked_without_pause(
    api: FakeApi, lasts: float, waits: tuple[float, ...]
) -> None:
    followed = Followed(api)
    begun = 0

    def end() -> None:
        nonlocal begun
        followed.now += lasts
        begun += 1
        if begun == 9:
            followed.mirror.stop()
        api.end_watches(bookmark=False)

    api.idle = end
    followed.mirror.follow()
    assert len(followed.shown) == 1
    assert followed.waits == [pytest.approx(about, rel=JITTER) for about in waits]
    assert len(followed.versions()) == 9


def test_a_selection_keeps_its_query(api: FakeApi) -> None:
    followed = Followed(api, f"{NODES}?fieldSelector=metadata.name!%3Da")
    assert followed.run(lambda: put(api, "a"), lambda: put(api, "c")) == [
        ({"b": {}}, ""),
        ({"b": {}, "c": {}}, ""),
    ]


def test_objects_that_are_projected_to_nothing_are_not_kept(api: FakeApi) -> None:
    followed = Followed(api, project=lambda raw: labels(raw) or None)
    assert followed.run(lambda: put(api, "a")) == [({"a": {"x": "1"}}, ""), ({}, "")]


def test_a_change_of_fields_that_are_not_kept_wakes_no_waiter(api: FakeApi) -> None:
    other = {"metadata": {"name": "a", "labels": {"x": "1"}}, "status": {"a": 2}}
    shown = Followed(api).run(lambda: api.put(f"{NODES}/a", other), lambda: put(api, "a", x="2"))
    assert [items["a"]["x"] for items, _ in shown] == ["1", "2"]


@dataclass
class Seen:
    """Labels, and the version that they were seen in, which is ignored."""

    own: dict[str, str]
    version: str = field(compare=False)


def test_what_is_the_same_in_all_that_counts_is_kept_as_it_was_seen_last(api: FakeApi) -> None:
    """A pod is deleted by its version, which changes with what the scheduler writes and no one keeps."""
    followed = Followed(api, project=lambda raw: Seen(labels(raw), raw["metadata"]["resourceVersion"]))
    versions: list[str] = []
    followed.run(lambda: versions.append(put(api, "a", x="1")))
    assert [followed.mirror.items()["", "a"].version] == versions


def test_a_watch_that_is_stopped_while_it_begins_ends(api: FakeApi) -> None:
    followed = Followed(api)
    mirror = Mirror(api, NODES, labels, lambda: (followed.mirror.stop(), put(api, "c")))
    followed.mirror = mirror
    mirror.follow()
    assert ("", "c") not in mirror.items()


# ---- In its thread -----------------------------------------------------------------------------------------


@pytest.fixture
def changed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def copy(api: FakeApi, changed: threading.Event) -> Iterator[Mirror[dict[str, str]]]:
    made = Mirror(api, NODES, labels, changed.set)
    assert not made.wait(0)
    with made:
        assert made.wait(PATIENCE)
        assert changed.wait(PATIENCE)
        changed.clear()
        yield made


def test_what_a_mirror_gives_is_the_callers_own(
    api: FakeApi, copy: Mirror[dict[str, str]], changed: threading.Event
) -> None:
    copy.items().clear()
    assert copy.items() == {("", "a"): {"x": "1"}, ("", "b"): {}}
    api.remove(f"{NODES}/a")
    assert changed.wait(PATIENCE)
    assert copy.items() == {("", "b"): {}}


def test_a_mirror_whose_thread_failed_stays_stale(
    api: FakeApi, copy: Mirror[dict[str, str]], changed: threading.Event
) -> None:
    copy.check()
    api.put(f"{NODES}/a", {"metadata": {"name": "a"}})  # has no labels
    assert changed.wait(PATIENCE)
    assert copy.stale_reason == "the watch has ended"
    with pytest.raises(RuntimeError, match=f"{NODES} is no longer watched") as raised:
        copy.check()
    assert isinstance(raised.value.__cause__, KeyError)


def test_of_a_long_list_one_page_at_a_time_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"label-{number}": "x" * 50 for number in range(40)}
    item = json.dumps({"metadata": {"name": "%s", "resourceVersion": "5", "labels": many}})

    def pages(_: str) -> Iterator[Object]:
        for number in range(10):
            items = [json.loads(item % f"{number}-{index}") for index in range(20)]
            yield {"metadata": {"resourceVersion": "5"}, "items": items}
        yield {"metadata": {"resourceVersion": "5"}, "items": None}

    api = FakeApi()
    monkeypatch.setattr(api, "pages", pages)
    tracemalloc.start()
    next(pages(NODES))
    one = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    mirror = Mirror(api, NODES, lambda raw: raw["metadata"]["resourceVersion"], lambda: mirror.stop())  # noqa: PLW0108
    mirror.follow()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(mirror.items()) == 10 * 20
    assert peak < 3 * one


def test_a_collection_that_is_not_served_is_empty_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApi()
    api.put(f"{NODES}/a", {"metadata": {"name": "a", "labels": {}}})
    followed, served = Followed(api, unserved="none counts"), list[bool]()
    monkeypatch.setattr(api, "get", lambda _: {} if served else None)
    listed = list[bool]()
    shown = followed.run(
        lambda: listed.append(followed.mirror.wait(0)), lambda: served.append(True), lambda: None
    )
    assert (listed, shown[0], shown[-1]) == ([True], ({}, ""), ({"a": {}}, ""))
    assert followed.waits == [NOT_SERVED_SECONDS] * 2
    assert caplog.messages == [f"{NODES} is not served: none counts"]


def test_a_collection_that_is_served_no_longer_is_empty_again(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    api.put(f"{NODES}/a", {"metadata": {"name": "a", "labels": {}}})
    followed = Followed(api, unserved="none counts")

    def end() -> None:
        monkeypatch.setattr(api, "get", lambda _: None)
        api.refuse = "watch"
        api.end_watches("gone")

    shown = followed.run(end, lambda: None)
    assert (shown[0], shown[-1]) == (({"a": {}}, ""), ({}, ""))


def test_a_copy_that_was_lost_for_long_is_not_shown_as_followed_before_it_is_listed(api: FakeApi) -> None:
    """Else a program takes what it saw before the outage for what is there now."""
    followed = Followed(api)

    def outage() -> None:
        put(api, "taken")
        api.forget()
        api.refuse = ""

    followed.run(
        lambda: setattr(api, "refuse", NODES),
        lambda: api.end_watches("reset"),
        *[lambda: None] * 5,
        outage,
        lambda: None,
    )
    lost = [why for _, why in followed.shown].index(next(why for _, why in followed.shown if why))
    assert all("taken" in items for items, why in followed.shown[lost:] if not why)


def test_a_copy_whose_watches_break_as_soon_as_they_begin_is_listed_again(api: FakeApi) -> None:
    """Such a watch is a connection and tells nothing: the copy is as old as the last event."""
    followed = Followed(api)
    breaks = [lambda: api.end_watches("reset", bookmark=False), lambda: None] * 5
    followed.run(*breaks)
    assert sum(followed.waits) > STALE_SECONDS > max(followed.waits)
    assert sum("watch=1" not in path for path in api.paths) > 1
