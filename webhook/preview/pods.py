"""The Pods of a job in a preview: those that get the same are told as one, the like of them in a line."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from contract import keys
from webhook.engine.evaluate import opened
from webhook.engine.jobs import is_pod
from webhook.engine.outcome import JobError, Outcome, Request, cut
from webhook.engine.pods import pods_of
from webhook.objects.tree import Json, WrongTypeError, nodes, parse_pointer, text_of

if TYPE_CHECKING:
    from webhook.preview.run import Preview

_Texts = Mapping[tuple[object, ...], str]


class Share(NamedTuple):
    """Pods by their numbers in a group of so many, of a job of this title: each of them gets the same."""

    job: str
    group: str
    first: int
    last: int
    of: int

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return self.group if self.of == 1 else f"{self.group} {numbers} of {self.of}"


def made(of: "Preview") -> tuple[Iterable[tuple[str, int, int, Json]], tuple[str, ...]]:
    """The Pods (`pods_of`) that will be made of an object as it would be stored, and notes on others."""
    try:
        found = opened(of.table, Request(of.object, of.namespace))
    # Of a table that is off nobody has read it yet.
    except (JobError, WrongTypeError) as error:
        return (), () if of.outcome.denials else (f"its Pods are not known: {cut(str(error))}",)
    if found is None:
        return (), (f"its Pods are not known: {of.outcome.reason}",)
    job = found[0]
    if of.outcome.denials or is_pod(job):
        return (), ()
    units, later = job.workload.group, any(each.index and not each.numbered for each in job.groups)
    notes = [f"each {units} has such Pods; the first one's are shown"] if units else []
    notes += ["not all its Pods are there at once; their numbers may differ from these"] if later else []
    return pods_of(job, of.outcome.after), tuple(notes)


def done(outcome: Outcome) -> tuple[object, ...]:
    """What is done and said, which Pods have in common that differ in their number only."""
    would = outcome.would and done(outcome.would)
    return outcome.operations, outcome.rules, outcome.warnings, outcome.denials, would


def told(pods: Iterable["Preview"]) -> Iterator[tuple["Preview", str]]:
    """Each of the Pods that is to be shown, and after it a line on those that follow and get the like."""
    runs: list[list[tuple[Preview, Mapping[str, str]]]] = []
    texts_of_first: _Texts = {}
    for pod in pods:
        texts = _texts(pod)
        but = _but(texts_of_first, texts)
        if but is None:
            texts_of_first = texts
            runs.append([(pod, {})])
        else:
            runs[-1].append((pod, but))
    for (first, _), *alike in runs:
        yield first, ""
        if alike:
            yield first, _line(first, alike)


def _line(first: "Preview", alike: list[tuple["Preview", Mapping[str, str]]]) -> str:
    shares, (but, last) = [pod.share for pod, _ in alike if pod.share], (alike[0][1], alike[-1][1])
    parts = f", in {len(alike)} parts" if len(alike) > 1 else ""
    values = (f"{key} {text}" + (f" to {last.get(key)}" if parts else "") for key, text in but.items())
    whole = shares[0]._replace(last=shares[-1].last)
    return f"{whole}{parts}: as {first.share}, with {', '.join(values) or 'the same'}"


def _but(one: _Texts, two: _Texts) -> Mapping[str, str] | None:
    """What else Pods of the same group get, by the key that has it; None where more than texts differs."""
    if one.keys() != two.keys():
        return None
    found: dict[tuple[str, str], str] = {}
    for place, text in two.items():
        if one[place] != text:  # of several places that have it the first, a label, says what it is
            key = next(part for part in reversed(place) if isinstance(part, str))
            found.setdefault((one[place], text), key)
    return {key: text for (_, text), key in found.items()}


def _texts(pod: "Preview") -> _Texts:
    """Whatever is done and said, by its place; not the record of it, which is of digests."""
    outcome, group = pod.outcome, pod.share and pod.share.group
    found: dict[tuple[object, ...], str] = {(group, outcome.rules, outcome.warnings, outcome.denials): ""}
    for change in pod.changes:
        for path, value in nodes(change.after, parse_pointer(change.path)):
            if keys.ADDED_TO_POD not in path:
                found[change.rule, *path] = "" if isinstance(value, dict | list) else text_of(value)
    return found
