"""The Pods of a job in a preview: those that get the same are told as one, the like of them in a line."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from contract import keys
from webhook.engine.evaluate import opened
from webhook.engine.jobs import is_pod
from webhook.engine.outcome import JobError, Outcome, cut
from webhook.engine.pods import Made, pods_of
from webhook.objects.tree import WrongTypeError, nodes, parse_pointer, text_of

if TYPE_CHECKING:
    from webhook.preview.run import Preview

RECORD: Final = keys.ADDED_TO_POD.replace("/", "~1")


class Share(NamedTuple):
    """Pods of one group of a job, each of which gets the same.

    Attributes:
        job: its title.
        group: what tells the group from others of the job.
        first: the number of the first of them, among the Pods of the group.
        last: of the last.
        of: how many Pods the group has.
    """

    job: str
    group: str
    first: int
    last: int
    of: int

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return self.group if self.of == 1 else f"{self.group} {numbers} of {self.of}"


def made(of: "Preview") -> tuple[Iterable[Made], tuple[str, ...]]:
    """The Pods that will be made of an object as it would be stored, and notes on others."""
    if of.outcome.denials:
        return (), ()
    try:
        found = opened(of.table, of.request)
    # Of a table that is off nobody has read it yet.
    except (JobError, WrongTypeError) as error:
        return (), (f"its Pods are not known: {cut(str(error))}",)
    if found is None:
        return (), (f"its Pods are not known: {of.outcome.reason}",)
    job, notes = found[0], []
    if is_pod(job):
        return (), ()
    if job.workload.group:
        notes.append(f"each {job.workload.group} has such Pods; the first one's are shown")
    if any(group.takes_nodes and group.index and not group.numbered for group in job.groups):
        notes.append("not all its Pods are there at once, and their numbers may be others than shown")
    return pods_of(job, of.outcome.after), tuple(notes)


def same_done(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes, of Pods that differ in their number, do and say the same."""
    done = [(each.operations, each.rules, each.warnings, each.denials) for each in (one, other)]
    return done[0] == done[1] and (not (one.would and other.would) or same_done(one.would, other.would))


def told(pods: Iterable["Preview"]) -> Iterator[tuple["Preview", str]]:
    """Each of the Pods that is to be shown, and after it a line on those that follow and get the like."""
    first: Preview | None = None
    alike: list[tuple[Share, Mapping[str, str]]] = []
    for pod in pods:
        but = _but(first, pod) if first else None
        if but is not None and pod.share:
            alike.append((pod.share, but))
            continue
        if first and alike:
            yield first, _line(first, alike)
        first, alike = pod, []
        yield pod, ""
    if first and alike:
        yield first, _line(first, alike)


def _line(first: "Preview", alike: list[tuple[Share, Mapping[str, str]]]) -> str:
    (share, but), (end, last) = alike[0], alike[-1]
    parts = f", in {len(alike)} parts" if len(alike) > 1 else ""
    values = (f"{key} {text}" + (f" to {last.get(key)}" if parts else "") for key, text in but.items())
    return f"{share._replace(last=end.last)}{parts}: as {first.share}, with {', '.join(values) or 'the same'}"


def _but(first: "Preview", other: "Preview") -> Mapping[str, str] | None:
    """What else Pods of the same group get, by the key that has it; None where more than texts differs."""
    one, two = (list(_texts(pod)) for pod in (first, other))
    if [place for place, _ in one] != [place for place, _ in two]:
        return None
    found: dict[tuple[str, str], str] = {}
    for (place, old), (_, new) in zip(one, two, strict=True):
        if old != new:
            found.setdefault((old, new), str(next(part for part in reversed(place) if isinstance(part, str))))
    return {key: new for (_, new), key in found.items()}


def _texts(pod: "Preview") -> Iterator[tuple[tuple[object, ...], str]]:
    """Whatever is done and said, in texts and their places, but for the record, which is of digests."""
    yield (pod.share and pod.share.group, pod.outcome.rules, pod.outcome.warnings, pod.outcome.denials), ""
    for change in pod.changes:
        if not change.path.endswith(RECORD):
            for path, value in nodes(change.after, parse_pointer(change.path)):
                yield (change.rule, *path), "" if isinstance(value, dict | list) else text_of(value)
