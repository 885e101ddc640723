"""The handler of each endpoint that the API server calls: a review and the table in, an outcome out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from common.tablefiles import ordered
from common.texts import printable
from webhook.admission.review import Review
from webhook.engine import Outcome, Request, evaluate, update
from webhook.engine.opening import groups_of, kind_of
from webhook.objects.patch import Operation
from webhook.objects.tree import Json, drop, get
from webhook.rows.table import Table
from webhook.rules.load import load_texts
from webhook.rules.problems import Problem, TableError
from webhook.undo import record

LONGEST_REQUEST: Final = 60.0
"""Seconds from mutation to validation at most: the API server's default of ``--request-timeout``."""

LONGEST_BEGINNING: Final = 58
"""Characters that a name keeps of a ``generateName`` (k8s.io/apiserver, ``pkg/storage/names``)."""

Handler = Callable[[Table, Review], Outcome | None]
"""None for a review that is ignored: it is allowed untouched."""


def mutate(table: Table, review: Review) -> Outcome | None:
    """What is added to a new object, and what the update of a stored one keeps."""
    match review.operation:
        case "CREATE":
            return evaluate(table, review.request)
        case "UPDATE":
            found = update(table, review.request, review.stored)
            return None if isinstance(found, str) else found
    return None


def verify(table: Table, review: Review, *, refuse: bool = False) -> Outcome | None:
    """Warns of a new object that came through without what should have been added to it.

    That is the case when the mutating webhook could not be reached and may fail open. It is known by asking
    the same question again: had the object been mutated, nothing would be left to add.

    Args:
        table: the rules.
        review: of the object.
        refuse: whether such an object is refused instead.
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
    came, way_out = ("came", "apply it") if refuse else ("admitted", "delete it and apply it")
    said = f"{came} without what ultraserver-webhook does to it: {way_out} again when the webhook is up"
    said = f"{said} ({missing})"
    revisions = (found.table for found in _records(table, review.request.object))
    if other := next((revision for revision in revisions if revision != table.revision), ""):
        # Replicas reload a new table one after the other, which is not a reason to refuse what one mutated.
        refuse = False
        said = f"mutated by rule table {printable(other, 40)}, this replica has {table.revision}"
    left = replace(outcome, after=review.request.object, operations=(), warnings=(), denials=())
    return replace(left, denials=(said,)) if refuse else replace(left, warnings=(said,))


require: Final[Handler] = partial(verify, refuse=True)
"""As ``verify``, but refuses such an object."""


def _lacking(outcome: Outcome) -> list[Operation]:
    """What an object that was mutated would have.

    Not another record: the API server writes its defaults into what was added to objects of its own kinds,
    which is then taken for the author's. One that is there was written by mutation, or the guard refuses it.
    """
    return [one for one in outcome.operations if one["op"] != "replace" or not record.is_at(one["path"])]


def _records(table: Table, obj: Json) -> list[record.Record]:
    rows = table.workloads_of(kind_of(obj))
    templates = (each.template for row in rows for each in groups_of(table, row, obj))
    return [found for found in map(record.read, templates) if found]


def as_mutated(table: Table, request: Request) -> Iterator[Request]:
    """The request as mutation may have seen it: with its name or without, and before a policy ended."""
    yield request
    yield (unnamed := as_unnamed(table, request))
    earlier = request.now - LONGEST_REQUEST
    if any(row.ended(request.now) and not row.ended(earlier) for row in table.policies):
        yield replace(request, now=earlier)
        yield replace(unnamed, now=earlier)


def as_unnamed(table: Table, request: Request) -> Request:
    """The request as mutation saw it: the name of a ``generateName`` object comes after that.

    Its review had another uid, which is in the record; the label has to follow from it.
    """
    name, beginning = (get(request.object, ("metadata", key)) for key in ("name", "generateName"))
    if not (
        isinstance(name, str)
        and isinstance(beginning, str)
        and beginning
        and name.startswith(beginning[:LONGEST_BEGINNING])
    ):
        return request
    uids = (found.uid for found in _records(table, request.object) if found.uid)
    return replace(request, object=drop(request.object, ("metadata", "name")), uid=next(uids, request.uid))


def rule_table(table: Table, review: Review) -> Outcome | None:
    """Refuses a ConfigMap with a rule table that could not be used, with what ``rules lint`` says of it."""
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
    return Outcome(table.revision, reason, review.request.object, denials=tuple(map(str, problems)))
