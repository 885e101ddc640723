"""A collection is followed: lists, changes, bookmarks, versions that are too old, connections that break.

The real API server is followed in ``tests/plane/test_watch.py``.
"""

from __future__ import annotations

import json
import threading
import tracemalloc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kube.api import GoneError
from kube.backoff import JITTER, Backoff
from kube.watch import SHORT_SECONDS, Changed, Listed, Lost, Mirror, Resumed, Watch
from testbed.waiting import PATIENCE
from tests.kube.fake import FakeApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube.api import Object

NODES = "/api/v1/nodes"


@dataclass
class Followed:
    """Nodes that are followed, on a clock that waits move.

    Attributes:
        api: The API server.
        waits: How long was waited between two tries.
    """

    api: FakeApi = field(default_factory=FakeApi)
    path: str = NODES
    now: float = 1000.0
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begins nothing yet."""
        self.watch = Watch(self.api, self.path, labels, Backoff(1, 30), lambda: self.now, self._wait)
        self.events = self.watch.events()

    def next(self, count: int = 1) -> list[Any]:
        """The next events."""
        return [next(self.events) for _ in range(count)]

    def versions(self) -> list[str]:
        """From which version each watch began."""
        queries = [parse_qs(urlsplit(path).query) for path in self.api.asked]
        return [query["resourceVersion"][0] for query in queries if "watch" in query]

    def _wait(self, stopped: threading.Event, seconds: float) -> bool:
        if not stopped.is_set():
            self.waits.append(seconds)
            self.now += seconds
        return stopped.is_set()


def labels(raw: Object) -> dict[str, str]:
    found: dict[str, str] = raw["metadata"]["labels"]
    return found


def put(api: FakeApi, name: str, **own: str) -> str:
    """A node as somebody writes it; its version."""
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
    followed = Followed(api)
    assert followed.next() == [Listed({("", "a"): {"x": "1"}, ("", "b"): {}})]
    put(api, "c")
    put(api, "a", x="2")
    api.remove(f"{NODES}/b")
    assert followed.next(3) == [
        Changed(("", "c"), {}),
        Changed(("", "a"), {"x": "2"}),
        Changed(("", "b"), None),
    ]
    assert "allowWatchBookmarks=true" in api.asked[1]


def test_a_watch_that_ends_goes_on_from_the_last_version_a_bookmarks_included(api: FakeApi) -> None:
    followed = Followed(api)
    followed.next()
    first = put(api, "c")
    followed.next()
    api.put("/api/v1/pods/other", {"metadata": {"name": "other"}})
    api.end_watches()
    api.idle = lambda: put(api, "d")
    assert followed.next() == [Changed(("", "d"), {})]
    assert followed.versions() == [str(int(first) - 1), str(int(first) + 1)]
    assert followed.waits == []


@pytest.mark.parametrize("as_the_answer", [False, True], ids=["as an event", "as the answer"])
def test_a_version_that_is_too_old_is_listed_anew(
    api: FakeApi,
    as_the_answer: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed = Followed(api)
    followed.next()
    api.remove(f"{NODES}/a")
    api.forget()
    if as_the_answer:
        stream = api.stream

        def refuse(path: str) -> None:
            monkeypatch.setattr(api, "stream", stream)
            raise GoneError(f"{path}: 410")

        monkeypatch.setattr(api, "stream", refuse)
    assert followed.next() == [Listed({("", "b"): {}})]
    put(api, "c")
    assert followed.next() == [Changed(("", "c"), {})]


def test_failures_are_told_and_tried_again_from_where_it_was(api: FakeApi) -> None:
    api.refuse = NODES
    followed = Followed(api)
    (lost,) = followed.next()
    assert isinstance(lost, Lost)
    assert "403" in lost.why
    api.refuse = ""
    assert isinstance(followed.next()[0], Listed)
    version = put(api, "c")
    followed.next()
    api.end_watches("reset")
    assert followed.next() == [Lost("reset")]
    put(api, "d")
    assert followed.next(2) == [Resumed(), Changed(("", "d"), {})]
    assert followed.versions()[-1] == version
    assert len(followed.waits) == 2


def test_an_error_that_the_watch_tells_is_a_failure(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Followed(api)
    followed.next()
    told = [{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "because"}}]
    monkeypatch.setattr(api, "said_since", lambda version, _: (version, told))
    assert followed.next() == [Lost(f"{NODES}: because")]
    monkeypatch.undo()
    assert followed.next() == [Resumed()]


def test_waits_grow_until_an_event_comes(api: FakeApi) -> None:
    api.refuse = NODES
    followed = Followed(api)
    followed.next(4)
    api.refuse = ""
    followed.next()
    assert followed.waits == [pytest.approx(about, rel=JITTER) for about in (1, 2, 4, 8)]
    put(api, "c")
    followed.next()
    api.end_watches("reset")
    followed.next()
    api.idle = lambda: put(api, "d")
    followed.next(2)
    assert followed.waits[-1] == pytest.approx(1, rel=JITTER)


@pytest.mark.parametrize(
    ("lasts", "waits"), [(0.0, (1, 2, 4, 8, 16, 30)), (SHORT_SECONDS, ())], ids=["at once", "in time"]
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
        if begun == 8:
            followed.watch.stop()
        api.end_watches(bookmark=False)

    api.idle = end
    assert len(list(followed.events)) == 1
    assert followed.waits == [pytest.approx(about, rel=JITTER) for about in waits]
    assert len(followed.versions()) == 8


def test_a_selection_keeps_its_query(api: FakeApi) -> None:
    followed = Followed(api, f"{NODES}?fieldSelector=metadata.name!%3Da")
    assert followed.next() == [Listed({("", "b"): {}})]
    put(api, "a")
    put(api, "c")
    assert followed.next() == [Changed(("", "c"), {})]


def test_what_is_projected_to_nothing_is_not_kept_and_goes_when_it_becomes_nothing(api: FakeApi) -> None:
    events = Watch(api, NODES, lambda raw: labels(raw) or None).events()
    assert next(events) == Listed({("", "a"): {"x": "1"}})
    put(api, "a")
    assert next(events) == Changed(("", "a"), None)


# ---- A copy that a thread keeps ----------------------------------------------------------------------------


class Copy:
    """A mirror, and what it told."""

    def __init__(self, api: FakeApi, path: str = NODES) -> None:
        self.calls = 0
        self._changed = threading.Condition()
        watch = Watch(api, path, labels, wait=lambda stopped, _: stopped.is_set())
        self.mirror = Mirror(watch, self._told)

    def _told(self) -> None:
        with self._changed:
            self.calls += 1
            self._changed.notify_all()

    def until(self, condition: Callable[[], object]) -> None:
        """Waits until something holds; what is not told is not noticed."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), (self.mirror.items(), self.mirror.lost)

    def until_has(self, **items: dict[str, str]) -> None:
        """Waits until it has these nodes and no others."""
        self.until(lambda: self.mirror.items() == {("", name): item for name, item in items.items()})


@pytest.fixture
def copy(api: FakeApi) -> Iterator[Copy]:
    made = Copy(api)
    assert not made.mirror.wait(0)
    with made.mirror:
        assert made.mirror.wait(PATIENCE)
        made.until(lambda: made.calls == 1)
        yield made


def test_a_mirror_has_what_there_is_and_what_it_gives_is_the_callers_own(api: FakeApi, copy: Copy) -> None:
    copy.mirror.items().clear()
    copy.until_has(a={"x": "1"}, b={})
    api.remove(f"{NODES}/a")
    put(api, "d")
    copy.until_has(b={}, d={})
    api.remove(f"{NODES}/b")
    api.forget()
    api.end_watches()
    put(api, "c")
    copy.until_has(c={}, d={})
    assert copy.mirror.lost == ""


def test_a_change_of_nothing_that_is_kept_wakes_nobody(api: FakeApi, copy: Copy) -> None:
    for number in range(3):
        api.put(f"{NODES}/a", {"metadata": {"name": "a", "labels": {"x": "1"}}, "status": {"a": number}})
    put(api, "a", x="2")
    copy.until_has(a={"x": "2"}, b={})
    assert copy.calls == 2


def test_a_mirror_that_cannot_follow_keeps_what_it_had_and_says_so_until_it_follows_again(
    api: FakeApi, copy: Copy
) -> None:
    api.refuse = "watch=1"
    api.end_watches("reset")
    copy.until(lambda: "403" in copy.mirror.lost)
    assert copy.mirror.items() == {("", "a"): {"x": "1"}, ("", "b"): {}}
    api.refuse = ""
    copy.until(lambda: copy.mirror.lost == "")  # before anything changes


def test_a_mirror_whose_thread_failed_says_that_it_is_behind_for_ever(api: FakeApi, copy: Copy) -> None:
    copy.mirror.check()
    api.put(f"{NODES}/a", {"metadata": {"name": "a"}})  # has no labels
    copy.until(lambda: copy.mirror.lost == "the watch has ended")
    with pytest.raises(RuntimeError, match=f"{NODES} is not followed any longer") as raised:
        copy.mirror.check()
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_watch_that_is_stopped_while_it_begins_ends(api: FakeApi) -> None:
    followed = Followed(api)
    followed.next()
    put(api, "c")
    followed.watch.stop()
    assert list(followed.events) == []


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
    listed = next(Watch(api, NODES, lambda raw: raw["metadata"]["resourceVersion"]).events())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(listed, Listed)
    assert len(listed.items) == 10 * 20
    assert peak < 3 * one
