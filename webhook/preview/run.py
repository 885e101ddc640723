"""A dry run: the function the cluster calls, and its answer as people and tools want to read it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import inf
from typing import Final

import jsonpatch

from common.pointers import path_of
from common.texts import cut
from webhook import limits
from webhook.documents import Document, DocumentError, expand_lists
from webhook.engine import Outcome, Request, admit
from webhook.engine.opening import kind_of, opened
from webhook.engine.outcome import JobError, bounded
from webhook.engine.pods import pods_of
from webhook.objects.tree import Json, WrongTypeError, get
from webhook.preview.hints import hints, refusals
from webhook.preview.report import Preview, report
from webhook.preview.sent import SYSTEM, not_a_job, not_sent, unseen
from webhook.preview.sentence import Seen, Share
from webhook.rows.table import Table

_TELL_AFTER = 2000
"""Pods of a job, looked at in less than a second."""

EMPTY: Final = "no objects to look at"
"""What is wrong with a text without documents."""

UID: Final = "preview"
"""Stands for the review's uid, by which a job without a name is told from others."""


def preview(  # noqa: PLR0913 - each is something that a person may say
    table: Table,
    documents: Iterable[Document],
    namespace: str | None = None,
    now: float = inf,
    *,
    all_rules: bool = False,
    old: Sequence[Document] | None = None,
    pods: bool = False,
    context: str = "default",
    most_pods: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Preview]:
    """What the webhook would do to each document, Lists opened.

    Every patch is applied by ``jsonpatch``, which knows nothing of the code that made it.

    Args:
        table: the rules.
        documents: as read from a file.
        namespace: that somebody asked for: documents that name one have to name the same.
        now: when the objects would be created, Unix time. Default: after the end of every policy.
        all_rules: whether to list rules for other objects, too.
        old: what is stored, if the documents are to update that.
        pods: whether to look at the Pods that are made of them as well.
        context: the namespace of documents that name none, if nobody asked for one.
        most_pods: that are looked at, of all documents; None: any number.
        tell: takes a line on what takes long, now and then.

    Raises:
        DocumentError: if a document is not a Kubernetes object, names another namespace, updates none that
            is stored, or several, or has more Pods.
    """
    there = defaultdict[str, list[Document]](list)
    for each in expand_lists(old or ()):
        there[_identity(each, _namespace(each, namespace, context))].append(each)
    numbers = count() if most_pods is None else iter(range(most_pods))
    previews = []
    for each in expand_lists(documents):
        where = _namespace(each, namespace, context)
        stored = None if old is None else _stored(each, _identity(each, where), there)
        outcome = admit(table, Request(each.value, where, UID, now=now, explain=True), stored)
        verify(each.value, outcome)
        near = {cut(text): each.line_of(path) for path, text in hints(table, each.value)}
        note = not_sent(each.value, where, outcome) or (None if near else not_a_job(table, each.value))
        outcome = unseen(outcome, each.value, where) if note and where in SYSTEM else outcome
        # A review holds text there, as the API server has read the object.
        more = refusals(table, each.value, outcome.denials)
        outcome = replace(outcome, warnings=bounded([*outcome.warnings, *more]))
        seen = Seen(table, each, where, each.value, outcome, stored, _hint(each, outcome))
        made, notes = _pods(seen, now, numbers, tell) if pods else (None, ())
        notes = (note, *notes) if note else notes
        previews.append(report(seen, notes, near, made, all_rules=all_rules))
    return previews


def _hint(document: Document, outcome: Outcome) -> str:
    """The first resource that is nearly one of the table's, and its line."""
    if not (fault := outcome.faults.get("resource")):
        return ""
    line = document.line_of(path_of(fault.field))
    return f"Line {line} requests {cut(fault.value)}; did you mean {fault.meant}?"


def _pods(
    job: Seen, now: float, numbers: Iterator[int], tell: Callable[[str], None]
) -> tuple[list[Seen], tuple[str, ...]]:
    """The Pods of a job, each evaluated, those that follow each other and get the same as one; and notes."""
    pods: list[Seen] = []
    every, notes = _made(job)
    for index, (group, number, of, pod) in enumerate(every):
        if next(numbers, None) is None:
            message = "the jobs up to this one have too many Pods: preview fewer jobs, or without Pods"
            raise DocumentError(job.document.source, job.document.line, 1, message)
        if index == limits.PODS:
            return pods, (*notes, f"it has more than {limits.PODS} Pods: the preview leaves out the others")
        if index and index % _TELL_AFTER == 0:
            tell(f"{job.title}: {index} Pods looked at")
        outcome = admit(job.table, Request(pod, job.namespace, UID, now=now, explain=True))
        last = pods[-1] if pods else job
        if last.share and last.share.group == group and _done(last.outcome) == _done(outcome):
            pods[-1] = last._replace(share=last.share._replace(last=number))
        else:
            verify(pod, outcome)
            share = Share(group, number, number, of)
            pods.append(job._replace(object=pod, outcome=outcome, stored=None, share=share))
    return pods, notes


def _made(of: Seen) -> tuple[Iterable[tuple[str, int, int, Json]], tuple[str, ...]]:
    """The Pods (`pods_of`) that will be made of an object as it would be stored, and notes on others."""
    try:
        job = opened(of.table, Request(of.object, of.namespace))
    # Of a table that is off nobody has read it yet.
    except (JobError, WrongTypeError) as error:
        return (), () if of.outcome.denials else (f"its Pods are not known: {cut(str(error))}",)
    if job is None:
        return (), (f"its Pods are not known: {of.outcome.reason}",)
    if of.outcome.denials or job.is_pod:
        return (), ()
    units, later = job.workload.group, any(each.index and not each.numbered for each in job.groups)
    notes = [f"each {units} has Pods like these, which are those of the first"] if units else []
    notes += ["its Pods are not all there at once: their numbers may differ from these"] if later else []
    return pods_of(job, of.outcome.after), tuple(notes)


def _done(outcome: Outcome) -> tuple[object, ...]:
    """What is done and said, which Pods have in common that differ in their number only."""
    would = outcome.would and _done(outcome.would)
    return outcome.operations, outcome.rules, outcome.warnings, outcome.denials, would


def namespace_of(obj: Json, default: str) -> str:
    """The namespace that an object names, or the default."""
    found = get(obj, ("metadata", "namespace"))
    return found if isinstance(found, str) and found else default


def _namespace(document: Document, given: str | None, context: str) -> str:
    """The namespace of a document; refused as kubectl does where it is not the one that was given."""
    own = namespace_of(document.value, given or context)
    if given and own != given:
        message = (
            f'this object is for namespace "{cut(own)}", and not "{given}": ask for --namespace={cut(own)}'
        )
        raise DocumentError(document.source, document.line_of(("metadata", "namespace")), 1, message)
    return own


def _identity(document: Document, namespace: str) -> str:
    return f"{kind_of(document.value)} {namespace}/{get(document.value, ('metadata', 'name')) or '*'}"


def _stored(document: Document, identity: str, there: Mapping[str, Sequence[Document]]) -> Json:
    """The one stored object that a document updates."""
    found = there.get(identity, ())
    if len(found) == 1:
        return found[0].value
    places = ", ".join(f"{each.source}:{each.line}" for each in found)
    why = f"--old has several, at {places}: keep one" if found else "--old has none: leave out --old for it"
    raise DocumentError(document.source, document.line, 1, f"it would update {identity}, but {why}")


def verify(received: Json, outcome: Outcome) -> None:
    """Applies the operations, and those of what is in shadow: an AssertionError if the engine is wrong."""
    if jsonpatch.apply_patch(received, list(outcome.operations)) != outcome.after:
        raise AssertionError("the patch gives another object than the engine")
    if outcome.would:
        verify(received, outcome.would)
