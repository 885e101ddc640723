"""The handler of each endpoint that the API server calls: review and table in, outcome out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from common.tablefiles import ordered
from common.texts import printable
from webhook.admission.review import Review
from webhook.engine import Outcome, Request, evaluate, update
from webhook.engine.messages import message, messages_of
from webhook.engine.reading import groups_of, kind_of
from webhook.objects import record
from webhook.objects.patch import Operation
from webhook.objects.tree import Json, drop, get
from webhook.rows.table import Table
from webhook.rules.load import load_texts
from webhook.rules.problems import Problem, TableError

LONGEST_REQUEST: Final = 60.0
"""Longest time from mutation to validation, in seconds: the API server's default of ``--request-timeout``."""

LONGEST_BEGINNING: Final = 58
"""Maximum length of a ``generateName`` in a name (k8s.io/apiserver, ``pkg/storage/names``)."""

Handler = Callable[[Table, Review], Outcome | None]
"""A handler; it returns None for a review that is ignored, which is allowed unchanged."""


def mutate(table: Table, review: Review) -> Outcome | None:
    """Returns what to add to a new object, or what an update of a stored object must keep."""
    match review.operation:
        case "CREATE":
            return evaluate(table, review.request)
        case "UPDATE":
            outcome = update(table, review.request, review.stored)
            return None if isinstance(outcome, str) or outcome.has_pods else outcome
    return None


def verify(table: Table, review: Review, *, refuse: bool = False) -> Outcome | None:
    """Warns about a new object that lacks what the webhook should have added.

    That happens if the mutating webhook was unreachable and fails open. The check evaluates the object again:
    if the object had been mutated, nothing would be left to add.

    Args:
        table: The rule table.
        review: The review of the object.
        refuse: Whether to refuse such an object instead.
    """
    if review.operation != "CREATE":
        return None
    tried: list[Outcome] = []
    for request in as_mutated(table, review.request):
        tried.append(evaluate(table, request))
        if not (_lacking(tried[-1]) or tried[-1].denials):
            return replace(tried[-1], warnings=())
    outcome = tried[0]
    missing = "; ".join(outcome.denials) or ", ".join(outcome.fired()[:3]) or "another job's terms are in it"
    step, way_out = ("sent", "apply it") if refuse else ("created", "delete it and apply it")
    lacking = message("not-mutated", step, way_out, missing)
    revisions = (written.table for written in _records(table, review.request.object))
    if other := next((revision for revision in revisions if revision != table.revision), ""):
        # Replicas reload a new table one after the other, which is not a reason to refuse an object.
        refuse = False
        lacking = message("other-table", printable(other, 40), table.revision)
    unchanged = replace(outcome, after=review.request.object, operations=(), warnings=(), denials=())
    return replace(unchanged, denials=(lacking,)) if refuse else replace(unchanged, warnings=(lacking,))


require: Final[Handler] = partial(verify, refuse=True)
"""Refuses an object that `verify` warns about."""


def _lacking(outcome: Outcome) -> list[Operation]:
    """Returns the changes that an object lacks which mutation should have changed.

    A changed record is ignored: the API server writes its defaults into additions to objects of its own
    kinds, which then look like the user's. An existing record is from mutation, or the guard refuses it.
    """
    operations = outcome.operations
    return [step for step in operations if step["op"] != "replace" or not record.is_record(step["path"])]


def _records(table: Table, obj: Json) -> list[record.Record]:
    rows = table.workloads_of(kind_of(obj))
    groups = (group for row in rows for group in groups_of(table, row, obj))
    return [written for group in groups if (written := record.read(group.template))]


def as_mutated(table: Table, request: Request) -> Iterator[Request]:
    """Yields the request as mutation may have received it: with or without a name, before a policy ended."""
    yield request
    yield (unnamed := as_unnamed(table, request))
    earlier = request.now - LONGEST_REQUEST
    if any(row.ended(request.now) and not row.ended(earlier) for row in table.policies):
        yield replace(request, now=earlier)
        yield replace(unnamed, now=earlier)


def as_unnamed(table: Table, request: Request) -> Request:
    """Returns the request as mutation received it: without the name that follows from ``generateName``.

    The review at mutation had another uid, which the record has; the label must follow from that uid.
    """
    name, beginning = (get(request.object, ("metadata", key)) for key in ("name", "generateName"))
    if not (
        isinstance(name, str)
        and isinstance(beginning, str)
        and beginning
        and name.startswith(beginning[:LONGEST_BEGINNING])
    ):
        return request
    uids = (written.uid for written in _records(table, request.object) if written.uid)
    return replace(request, object=drop(request.object, ("metadata", "name")), uid=next(uids, request.uid))


def rule_table(table: Table, review: Review) -> Outcome | None:
    """Refuses a ConfigMap with an invalid rule table, with the messages of ``rules lint``."""
    if review.operation not in {"CREATE", "UPDATE"} or review.kind != "ConfigMap":
        return None
    data = get(review.request.object, ("data",))
    texts = data if isinstance(data, dict) else {}
    problems: tuple[Problem, ...] = ()
    try:
        load_texts([(key, texts[key]) for key in ordered(texts) if isinstance(texts[key], str)], "data")
    except TableError as error:
        problems = error.problems
    reason = "a ConfigMap with the files of a rule table"
    denials = tuple(messages_of("invalid-table", map(str, problems)))
    return Outcome(table.revision, reason, review.request.object, denials=denials)
