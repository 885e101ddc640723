"""Makes previews: calls the function that admission calls in the cluster, and reports the outcome."""

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
from webhook.preview import messages
from webhook.preview.hints import find_hints, find_refusals
from webhook.preview.report import Preview, build_preview
from webhook.preview.sent import SYSTEM_NAMESPACES, creates_jobs_note, not_sent_note, system_outcome
from webhook.preview.sentence import DryRun, Share
from webhook.rows.table import Table

_PROGRESS_PODS = 2000
"""Number of Pods after which progress is reported again. Their evaluation takes less than a second."""

UID: Final = "preview"
"""The uid in the requests of previews. In a review, the engine uses the uid to distinguish unnamed jobs."""


def preview(  # noqa: PLR0913 - the options of the command
    table: Table,
    documents: Iterable[Document],
    namespace: str | None = None,
    now: float = inf,
    *,
    all_rules: bool = False,
    old: Sequence[Document] | None = None,
    pods: bool = False,
    default_namespace: str = "default",
    max_pods: int | None = None,
    report_progress: Callable[[str], None] = lambda _: None,
) -> list[Preview]:
    """Returns what the webhook would do to each document; Lists are expanded.

    The library ``jsonpatch`` applies each patch, to check it independently of the engine.

    Args:
        table: The rule table.
        documents: The documents of files.
        namespace: The user's ``--namespace``. A document with another namespace is refused.
        now: The Unix time at which the objects would be created. The default is infinitely late, so
            every policy that has an end date has ended.
        all_rules: Whether the report also lists rules that are not for the object's kind, roles or faults.
        old: The stored objects that the documents update; None if the documents create objects.
        pods: Whether to evaluate the Pods of the documents, too.
        default_namespace: The namespace of documents without one, if ``namespace`` is None.
        max_pods: Maximum number of Pods of all documents; None means no limit.
        report_progress: A function that receives a line of text from time to time.

    Raises:
        DocumentError: A document is not a Kubernetes object, names another namespace, or updates no
            stored object or more than one; or the documents have too many Pods.
    """
    stored_by_identity = defaultdict[str, list[Document]](list)
    for document in expand_lists(old or ()):
        document_namespace = _namespace(document, namespace, default_namespace)
        stored_by_identity[_identity(document, document_namespace)].append(document)
    pod_budget = count() if max_pods is None else iter(range(max_pods))
    previews = []
    for document in expand_lists(documents):
        obj, object_namespace = document.value, _namespace(document, namespace, default_namespace)
        identity = _identity(document, object_namespace)
        stored = None if old is None else _stored(document, identity, stored_by_identity)
        outcome = admit(table, Request(obj, object_namespace, UID, now=now, explain=True), stored)
        check_patch(obj, outcome)
        line_of_hint = {cut(text): document.line_of(path) for path, text in find_hints(table, obj)}
        note = not_sent_note(obj, object_namespace, outcome)
        # If the kind is probably misspelt, a note on this kind would mislead.
        if not line_of_hint:
            note = note or creates_jobs_note(table, obj)
        if note and object_namespace in SYSTEM_NAMESPACES:
            outcome = system_outcome(outcome, obj, object_namespace)
        # The API server itself refuses these fields, so a review needs no warnings about them.
        refusals = messages_of("invalid-field", find_refusals(table, obj, outcome.denials))
        outcome = replace(outcome, warnings=limit_messages([*outcome.warnings, *refusals]))
        hint = _misspelt_resource_hint(document, outcome)
        run = DryRun(table, document, object_namespace, obj, outcome, stored, hint)
        pod_runs, notes = _pods(run, now, pod_budget, report_progress) if pods else (None, ())
        notes = (note, *notes) if note else notes
        previews.append(build_preview(run, notes, line_of_hint, pod_runs, all_rules=all_rules))
    return previews


def _misspelt_resource_hint(document: Document, outcome: Outcome) -> str:
    """Returns a hint on the first requested resource that is similar to a resource of the table."""
    if not (faults := outcome.faults.get("resource")):
        return ""
    line = document.line_of(path_of(faults[0].field))
    return messages.misspelt_resource(line, cut(faults[0].value), faults[0].meant)


def _pods(
    job_run: DryRun, now: float, pod_budget: Iterator[int], report_progress: Callable[[str], None]
) -> tuple[list[DryRun], tuple[str, ...]]:
    """Returns the evaluated Pods of a job, and notes. Consecutive Pods with the same outcome are one item."""
    runs: list[DryRun] = []
    created_pods, notes = _created_pods(job_run)
    for index, (group, number, size, pod) in enumerate(created_pods):
        if next(pod_budget, None) is None:
            raise DocumentError(job_run.document.source, job_run.document.line, 1, messages.MANY_PODS)
        if index == limits.PODS:
            return runs, (*notes, messages.more_pods(limits.PODS))
        if index and index % _PROGRESS_PODS == 0:
            report_progress(messages.pods_evaluated(job_run.title, index))
        outcome = admit(job_run.table, Request(pod, job_run.namespace, UID, now=now, explain=True))
        last = runs[-1] if runs else job_run
        if last.share and last.share.group == group and _effects(last.outcome) == _effects(outcome):
            runs[-1] = last._replace(share=last.share._replace(last=number))
        else:
            check_patch(pod, outcome)
            share = Share(group, number, number, size)
            runs.append(job_run._replace(object=pod, outcome=outcome, stored=None, share=share))
    return runs, notes


def _created_pods(run: DryRun) -> tuple[Iterable[tuple[str, int, int, Json]], tuple[str, ...]]:
    """Returns the Pods that an operator would create for an object, and notes about the Pods."""
    try:
        job = read_job(run.table, Request(run.object, run.namespace))
    # If the mode of the table is off, the evaluation has not read the job, so the job may be invalid.
    except (JobError, WrongTypeError) as error:
        return (), () if run.outcome.denials else (messages.pods_unknown(cut(str(error))),)
    if job is None:
        return (), (messages.pods_unknown(run.outcome.reason),)
    if run.outcome.denials or job.is_pod:
        return (), ()
    group_name = job.workload.group
    are_created_later = any(group.index and not group.is_numbered for group in job.groups)
    notes = [messages.first_group(group_name)] * bool(group_name)
    notes += [messages.NOT_ALL_AT_ONCE] * are_created_later
    return pods_of(job, run.outcome.after), tuple(notes)


def _effects(outcome: Outcome) -> tuple[object, ...]:
    """Returns the changes and messages of an outcome; consecutive Pods with equal effects are shown once."""
    enforced = outcome.enforced and _effects(outcome.enforced)
    return outcome.operations, outcome.rules, outcome.warnings, outcome.denials, enforced


def namespace_of(obj: Json, default: str) -> str:
    """Returns the namespace that an object names, or the default."""
    namespace = get(obj, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) and namespace else default


def _namespace(document: Document, required: str | None, default: str) -> str:
    """Returns the namespace of a document. Like kubectl, refuses a namespace other than the required one."""
    namespace = namespace_of(document.value, required or default)
    if required and namespace != required:
        message = messages.other_namespace(cut(namespace), required)
        raise DocumentError(document.source, document.line_of(("metadata", "namespace")), 1, message)
    return namespace


def _identity(document: Document, namespace: str) -> str:
    return f"{kind_of(document.value)} {namespace}/{get(document.value, ('metadata', 'name')) or '*'}"


def _stored(document: Document, identity: str, stored_by_identity: Mapping[str, Sequence[Document]]) -> Json:
    """Returns the stored object that a document updates."""
    objects = stored_by_identity.get(identity, ())
    if len(objects) == 1:
        return objects[0].value
    places = ", ".join(f"{stored.source}:{stored.line}" for stored in objects)
    message = messages.several_stored(identity, places) if objects else messages.not_stored(identity)
    raise DocumentError(document.source, document.line, 1, message)


def check_patch(received: Json, outcome: Outcome) -> None:
    """Applies the patches of an outcome; raises an AssertionError if a result differs from the engine's."""
    if jsonpatch.apply_patch(received, list(outcome.operations)) != outcome.after:
        raise AssertionError("the patched object differs from the object of the engine")
    if outcome.enforced:
        check_patch(received, outcome.enforced)
