"""A collection is followed: lists, changes, bookmarks, versions that are too old, connections that break.

The real API server is followed in ``tests/cluster/test_watch.py``.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import tracemalloc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kube.api import ApiError, GoneError
from kube.backoff import Backoff
from kube.watch import Changed, Listed, Lost, Mirror, Resumed, Watch
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.api import Object

Step = Any
"""What one watch says: events, an error to raise, or ``HOLD`` to say nothing more until it is closed."""
HOLD = "hold"


def node(name: str, version: int, **labels: str) -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version), "labels": labels}, "status": {"a": 1}}


def event(kind: str, raw: Object) -> Object:
    return {"type": kind, "object": raw}


def error(code: int) -> Object:
    return event("ERROR", {"kind": "Status", "code": code, "message": f"because {code}"})


class Stream:
    """One watch of a script."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[Object]:
        for step in self._steps:
            if step == HOLD:
                self._closed.wait(60)
                raise ApiError("closed")
            if isinstance(step, Exception):
                raise step
            yield step

    def close(self) -> None:
        """Closes it."""
        self._closed.set()


@dataclass
class Script:
    """Lists and watches by a script; after its end watches say nothing."""

    lists: list[Any]
    watches: list[list[Step]]
    asked: list[str] = field(default_factory=list)

    def pages(self, path: str) -> Iterator[Object]:
        """See `kube.api.WatchApi`."""
        self.asked.append(path)
        pages = self.lists.pop(0)
        if isinstance(pages, Exception):
            raise pages
        yield from pages

    @contextlib.contextmanager
    def stream(self, path: str) -> Iterator[Stream]:
        """See `kube.api.WatchApi`."""
        self.asked.append(path)
        steps = self.watches.pop(0) if self.watches else [HOLD]
        if steps and isinstance(steps[0], GoneError):
            raise steps[0]
        yield Stream(steps)

    def versions(self) -> list[str]:
        """From which version each watch began."""
        queries = [parse_qs(urlsplit(path).query) for path in self.asked]
        return [query["resourceVersion"][0] for query in queries if "watch" in query]


def page(version: int, *items: Object) -> Object:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


def watch(api: Script, path: str = "/api/v1/nodes") -> Watch[dict[str, str]]:
    return Watch(api, path, lambda raw: raw["metadata"]["labels"], Backoff(0.01, 0.02))


def first(api: Script, count: int) -> list[Any]:
    """The first events; there must be so many."""
    made = watch(api)
    found = []
    for one in made.events():
        found.append(one)
        if len(found) == count:
            made.stop()
    return found


def test_a_list_and_then_what_changes_each_projected() -> None:
    api = Script(
        [[page(5, node("a", 1, x="1")), page(5, node("b", 2))]],
        [
            [
                event("ADDED", node("c", 6)),
                event("MODIFIED", node("a", 7, x="2")),
                event("DELETED", node("b", 8)),
            ]
        ],
    )
    assert first(api, 4) == [
        Listed({("", "a"): {"x": "1"}, ("", "b"): {}}),
        Changed(("", "c"), {}),
        Changed(("", "a"), {"x": "2"}),
        Changed(("", "b"), None),
    ]
    assert "allowWatchBookmarks=true" in api.asked[1]


def test_a_watch_that_ends_goes_on_from_the_last_version_a_bookmarks_included() -> None:
    api = Script(
        [[page(5)]],
        [
            [event("ADDED", node("a", 6))],
            [event("BOOKMARK", {"metadata": {"resourceVersion": "90"}})],
            [event("ADDED", node("b", 91))],
        ],
    )
    found = first(api, 3)
    assert [type(one) for one in found] == [Listed, Changed, Changed]
    assert api.versions() == ["5", "6", "90"]


@pytest.mark.parametrize("gone", [error(410), GoneError("410")], ids=["as an event", "as the answer"])
def test_a_version_that_is_too_old_is_listed_anew(gone: Step) -> None:
    api = Script(
        [[page(5, node("a", 1))], [page(70, node("b", 60))]], [[gone], [event("ADDED", node("c", 71))]]
    )
    assert first(api, 3) == [Listed({("", "a"): {}}), Listed({("", "b"): {}}), Changed(("", "c"), {})]
    assert api.versions() == ["5", "70"]


def test_failures_are_told_and_tried_again_from_where_it_was() -> None:
    api = Script(
        [ApiError("refused"), [page(5)]],
        [[event("ADDED", node("a", 6)), ApiError("reset")], [error(500)], [event("ADDED", node("b", 7))]],
    )
    found = first(api, 8)
    assert found == [
        Lost("refused"),
        Listed({}),
        Changed(("", "a"), {}),
        Lost("reset"),
        Resumed(),
        Lost("/api/v1/nodes: because 500"),
        Resumed(),
        Changed(("", "b"), {}),
    ]
    assert api.versions() == ["5", "6", "6"]


def test_after_an_event_waits_are_short_again() -> None:
    refused = [ApiError("refused")] * 4
    made = Watch(Script([*refused, [page(5)]], [[event("ADDED", node("a", 6))]]), "/a", str)
    made.backoff = Backoff(0.01, 60)
    events = made.events()
    assert [type(next(events)) for _ in range(6)] == [Lost] * 4 + [Listed, Changed]
    assert made.backoff.next() < 0.02


def test_an_api_server_that_ends_every_watch_at_once_is_not_asked_without_pause() -> None:
    api = Script([[page(5)]], [[] for _ in range(1000)])
    made = watch(api)
    thread = threading.Thread(target=list, args=(made.events(),))
    thread.start()
    time.sleep(0.3)
    made.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert 3 < len(api.asked) < 100


def test_a_selection_keeps_its_query() -> None:
    api = Script([[page(5)]], [])
    made = watch(api, "/api/v1/pods?labelSelector=a")
    with Mirror(made) as mirror:
        assert mirror.wait(PATIENCE)
        until(lambda: len(api.asked) == 2)
    assert [path.partition("&")[0] for path in api.asked] == ["/api/v1/pods?labelSelector=a"] * 2


def test_a_mirror_has_what_there_is_and_says_when_it_is_behind() -> None:
    changed: list[int] = []
    api = Script(
        [[page(5, node("a", 1), node("b", 2))], [page(9, node("c", 8))]],
        [[event("DELETED", node("a", 6)), event("ADDED", node("d", 7)), ApiError("reset")], [error(410)]],
    )
    mirror = Mirror(watch(api), lambda: changed.append(1))
    assert not mirror.wait(0)
    with mirror:
        until(lambda: set(mirror.items()) == {("", "c")})
        assert mirror.lost == ""
    assert len(changed) == 6
    assert "reset" not in mirror.lost


def test_a_change_of_nothing_that_is_kept_wakes_nobody() -> None:
    changed: list[int] = []
    same = [event("MODIFIED", node("a", version)) for version in range(6, 9)]
    api = Script([[page(5, node("a", 1))]], [[*same, event("MODIFIED", node("a", 9, x="1")), HOLD]])
    made = Watch(api, "/api/v1/nodes", lambda raw: raw["metadata"]["labels"])
    with Mirror(made, lambda: changed.append(1)) as mirror:
        until(lambda: mirror.items() == {("", "a"): {"x": "1"}})
        until(lambda: len(changed) == 2)


def test_a_mirror_that_cannot_follow_keeps_what_it_had() -> None:
    api = Script([[page(5, node("a", 1))]], [[ApiError("reset")]] * 1000)
    with Mirror(watch(api)) as mirror:
        until(lambda: mirror.lost)
        assert set(mirror.items()) == {("", "a")}
        assert mirror.lost == "reset"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mirror_whose_thread_failed_says_that_it_is_behind() -> None:
    woken = threading.Event()
    unreadable = event("MODIFIED", node("a", 6) | {"metadata": {"name": "a", "resourceVersion": "6"}})
    with Mirror(watch(Script([[page(5, node("a", 1))]], [[unreadable]])), woken.set) as mirror:
        until(lambda: mirror.lost == "the watch has ended")
        assert woken.is_set()


def test_a_mirror_that_lost_its_watch_follows_again_before_anything_changes() -> None:
    woken = threading.Event()
    api = Script([[page(5, node("a", 1))]], [[ApiError("reset")], [HOLD]])
    mirror = Mirror(watch(api), lambda: mirror.lost or woken.set())
    with mirror:
        until(lambda: len(api.asked) == 3)
        until(lambda: mirror.lost == "")
        assert woken.is_set()


def test_what_is_projected_to_nothing_is_not_kept_and_goes_when_it_becomes_nothing() -> None:
    api = Script([[page(5, node("a", 1), node("b", 2, x="1"))]], [[event("MODIFIED", node("b", 6))]])
    made = Watch(api, "/api/v1/nodes", lambda raw: raw["metadata"]["labels"] or None)
    events = made.events()
    assert [next(events), next(events)] == [Listed({("", "b"): {"x": "1"}}), Changed(("", "b"), None)]


def test_it_ends_while_it_waits_for_an_event() -> None:
    with Mirror(watch(Script([[page(5)]], [[HOLD]]))) as mirror:
        assert mirror.wait(PATIENCE)
        began = time.monotonic()
    assert time.monotonic() - began < 30


def test_of_a_long_list_one_page_at_a_time_is_in_memory() -> None:
    def pages() -> Iterator[Object]:
        for number in range(16):
            items = [
                node(f"{number}-{index}", 1, **{f"label-{i}": "x" * 50 for i in range(40)})
                for index in range(50)
            ]
            yield json.loads(json.dumps(page(5, *items)))

    tracemalloc.start()
    next(pages())
    one = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    made = Watch(Script([pages()], []), "/api/v1/nodes", lambda raw: raw["metadata"]["resourceVersion"])
    listed = next(made.events())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(listed, Listed)
    assert len(listed.items) == 16 * 50
    assert peak < 3 * one
