"""A dry run: it calls the cluster's function, and returns the outcome for people and tools."""

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
from webhook.engine.messages import limit_messages, messages_of
from webhook.engine.outcome import JobError
from webhook.engine.pods import pods_of
from webhook.engine.reading import kind_of, read_job
from webhook.objects.tree import Json, WrongTypeError, get
from webhook.preview.hints import hints, refusals
from webhook.preview.report import Preview, report
from webhook.preview.sent import SYSTEM, not_a_job, not_sent, unseen
from webhook.preview.sentence import Seen, Share
from webhook.rows.table import Table

_TELL_AFTER = 2000
"""Number of Pods after which progress is reported. Evaluating this many takes less than a second."""

EMPTY: Final = "there are no objects"
"""The error of a text without documents."""

UID: Final = "preview"
"""In place of the review's uid, which distinguishes jobs without a name."""


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
    """Returns what the webhook would do to each document; Lists are expanded.

    ``jsonpatch``, which is independent of our code, applies every patch.

    Args:
        table: The rule table.
        documents: The documents of files.
        namespace: The namespace that the user gave: documents that name one must name the same.
        now: When the objects would be created, Unix time. Default: after the end of every policy.
        all_rules: Whether to list rules for other objects, too.
        old: The stored objects, if the documents update these.
        pods: Whether to evaluate the Pods of the documents as well.
        context: The namespace of documents that name none, if the user gave none.
        most_pods: Maximum number of Pods of all documents; None means no limit.
        tell: Called with a line of progress from time to time.

    Raises:
        DocumentError: A document is not a Kubernetes object, names another namespace, updates no stored
            object or several, or has too many Pods.
    """
    there = defaultdict[str, list[Document]](list)
    for document in expand_lists(old or ()):
        there[_identity(document, _namespace(document, namespace, context))].append(document)
    numbers = count() if most_pods is None else iter(range(most_pods))
    previews = []
    for each in expand_lists(documents):
        where = _namespace(each, namespace, context)
        stored = None if old is None else _stored(each, _identity(each, where), there)
        outcome = admit(table, Request(each.value, where, UID, now=now, explain=True), stored)
        check_patch(each.value, outcome)
        near = {cut(text): each.line_of(path) for path, text in hints(table, each.value)}
        note = not_sent(each.value, where, outcome) or (None if near else not_a_job(table, each.value))
        outcome = unseen(outcome, each.value, where) if note and where in SYSTEM else outcome
        # A review has text there, because the API server has read the object.
        more = refusals(table, each.value, outcome.denials)
        outcome = replace(
            outcome, warnings=limit_messages([*outcome.warnings, *messages_of("invalid-field", more)])
        )
        seen = Seen(table, each, where, each.value, outcome, stored, _hint(each, outcome))
        made, notes = _pods(seen, now, numbers, tell) if pods else (None, ())
        notes = (note, *notes) if note else notes
        previews.append(report(seen, notes, near, made, all_rules=all_rules))
    return previews


def _hint(document: Document, outcome: Outcome) -> str:
    """Returns the first resource that is similar to one of the table's, and its line."""
    if not (faults := outcome.faults.get("resource")):
        return ""
    fault = faults[0]
    line = document.line_of(path_of(fault.field))
    return f"Line {line} requests {cut(fault.value)}; did you mean {fault.meant}?"


def _pods(
    job: Seen, now: float, numbers: Iterator[int], tell: Callable[[str], None]
) -> tuple[list[Seen], tuple[str, ...]]:
    """Returns the Pods of a job, evaluated, consecutive ones with the same outcome as one; and notes."""
    pods: list[Seen] = []
    every, notes = _made(job)
    for index, (group, number, of, pod) in enumerate(every):
        if next(numbers, None) is None:
            message = "the jobs up to this one have too many Pods: preview fewer jobs, or without Pods"
            raise DocumentError(job.document.source, job.document.line, 1, message)
        if index == limits.PODS:
            return pods, (*notes, f"it has more than {limits.PODS} Pods: the preview leaves out the others")
        if index and index % _TELL_AFTER == 0:
            tell(f"{job.title}: {index} Pods evaluated")
        outcome = admit(job.table, Request(pod, job.namespace, UID, now=now, explain=True))
        last = pods[-1] if pods else job
        if last.share and last.share.group == group and _done(last.outcome) == _done(outcome):
            pods[-1] = last._replace(share=last.share._replace(last=number))
        else:
            check_patch(pod, outcome)
            share = Share(group, number, number, of)
            pods.append(job._replace(object=pod, outcome=outcome, stored=None, share=share))
    return pods, notes


def _made(of: Seen) -> tuple[Iterable[tuple[str, int, int, Json]], tuple[str, ...]]:
    """Returns the Pods that an operator would create for an object, and notes about other Pods."""
    try:
        job = read_job(of.table, Request(of.object, of.namespace))
    # A table that is off has not been evaluated yet.
    except (JobError, WrongTypeError) as error:
        return (), () if of.outcome.denials else (f"its Pods are not known: {cut(str(error))}",)
    if job is None:
        return (), (f"its Pods are not known: {of.outcome.reason}",)
    if of.outcome.denials or job.is_pod:
        return (), ()
    units, later = job.workload.group, any(group.index and not group.numbered for group in job.groups)
    notes = [f"each {units} has Pods like these, which are those of the first"] if units else []
    notes += ["its Pods do not all exist at once: their numbers may differ from these"] if later else []
    return pods_of(job, of.outcome.after), tuple(notes)


def _done(outcome: Outcome) -> tuple[object, ...]:
    """Returns the changes and messages of an outcome. Pods in sequence that share them are shown once."""
    would = outcome.enforced and _done(outcome.enforced)
    return outcome.operations, outcome.rules, outcome.warnings, outcome.denials, would


def namespace_of(obj: Json, default: str) -> str:
    """Returns the namespace that an object names, or the default."""
    namespace = get(obj, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) and namespace else default


def _namespace(document: Document, given: str | None, context: str) -> str:
    """Returns the namespace of a document; refuses another one than the user's, as kubectl does."""
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
    """Returns the one stored object that a document updates."""
    objects = there.get(identity, ())
    if len(objects) == 1:
        return objects[0].value
    places = ", ".join(f"{stored.source}:{stored.line}" for stored in objects)
    why = f"--old has several, at {places}: keep one" if objects else "--old has none: leave out --old for it"
    raise DocumentError(document.source, document.line, 1, f"it would update {identity}, but {why}")


def check_patch(received: Json, outcome: Outcome) -> None:
    """Applies the operations, and those in shadow; an AssertionError is an error of the engine."""
    if jsonpatch.apply_patch(received, list(outcome.operations)) != outcome.after:
        raise AssertionError("the patch gives another object than the engine")
    if outcome.enforced:
        check_patch(received, outcome.enforced)
