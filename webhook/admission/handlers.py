"""Defines the handlers of the endpoints that the API server calls. A handler returns a review's outcome."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from common.tablefiles import table_file_names
from common.texts import printable
from webhook import messages
from webhook.admission.review import Review
from webhook.engine import Outcome, Request, evaluate, update
from webhook.engine.messages import message, messages_of
from webhook.engine.reading import find_groups, kind_of
from webhook.objects import record
from webhook.objects.tree import Json, drop, get
from webhook.rows.table import Table
from webhook.rules.load import load_texts
from webhook.rules.problems import Problem, TableError

MAX_REQUEST_SECONDS: Final = 60.0
"""Maximum time from mutation to validation: the API server's default of ``--request-timeout``."""

LONGEST_PREFIX: Final = 58
"""Maximum number of characters of ``generateName`` in a name (k8s.io/apiserver, ``pkg/storage/names``)."""

Handler = Callable[[Table, Review], Outcome | None]
"""A handler. It returns None if the webhook ignores the object, which is then allowed without changes."""


def mutate(table: Table, review: Review) -> Outcome | None:
    """Returns the outcome for a new object or an update; None for ignored updates and other operations."""
    match review.operation:
        case "CREATE":
            return evaluate(table, review.request)
        case "UPDATE":
            outcome = update(table, review.request, review.stored)
            return None if isinstance(outcome, str) or outcome.has_pods else outcome
    return None


def verify(table: Table, review: Review, *, refuse: bool = False) -> Outcome | None:
    """Returns the outcome for a new object, with a warning if the object lacks the webhook's changes.

    An object lacks these changes, for example, if the mutating webhook was unreachable and failed open. To
    find that out, the object is evaluated again: a mutated object needs no more changes.

    Args:
        table: The rule table.
        review: The review of the object.
        refuse: Whether to refuse an object without these changes, instead of adding a warning. An object that
            another table changed is not refused.
    """
    if review.operation != "CREATE":
        return None
    outcomes: list[Outcome] = []
    for request in possible_requests(table, review.request):
        outcomes.append(evaluate(table, request))
        # The API server writes defaults into added fields. Their digests then differ from the record, so an
        # evaluation replaces only the record. The guard refuses records that the webhook did not write.
        operations = outcomes[-1].operations
        is_mutated = all(item["op"] == "replace" and record.is_record(item["path"]) for item in operations)
        if is_mutated and not outcomes[-1].denials:
            return replace(outcomes[-1], warnings=())
    outcome = outcomes[0]
    reason = "; ".join(outcome.denials) or ", ".join(outcome.fired()[:3]) or messages.OTHER_TERMS
    text = message("not-mutated", *messages.NOT_MUTATED[refuse], reason)
    revisions = (item.table for item in _records(table, review.request.object))
    if other_revision := next((revision for revision in revisions if revision != table.revision), ""):
        # Replicas reload a new table one after the other, which is not a reason to refuse an object.
        refuse = False
        text = message("other-table", printable(other_revision, 40), table.revision)
    unchanged = replace(outcome, after=review.request.object, operations=(), warnings=(), denials=())
    return replace(unchanged, denials=(text,)) if refuse else replace(unchanged, warnings=(text,))


require: Final[Handler] = partial(verify, refuse=True)
"""Refuses a new object that lacks the webhook's changes, as `verify` describes."""


def _records(table: Table, obj: Json) -> list[record.Record]:
    rows = table.workloads_of(kind_of(obj))
    groups = (group for row in rows for group in find_groups(table, row, obj))
    return [item for group in groups if (item := record.read(group.template))]


def possible_requests(table: Table, request: Request) -> Iterator[Request]:
    """Yields the request, and requests that mutation may have received: unnamed, or before a policy ended."""
    yield request
    yield (unnamed := without_name(table, request))
    earlier = request.now - MAX_REQUEST_SECONDS
    if any(row.has_ended(request.now) and not row.has_ended(earlier) for row in table.policies):
        yield replace(request, now=earlier)
        yield replace(unnamed, now=earlier)


def without_name(table: Table, request: Request) -> Request:
    """Returns the request without the name, if the API server generated the name from ``generateName``.

    The job label of an unnamed job depends on the uid of its first review. So the result has this uid, from
    the record.
    """
    name, prefix = (get(request.object, ("metadata", key)) for key in ("name", "generateName"))
    are_texts = isinstance(name, str) and isinstance(prefix, str)
    if not (are_texts and prefix and name.startswith(prefix[:LONGEST_PREFIX])):
        return request
    uids = (item.uid for item in _records(table, request.object) if item.uid)
    return replace(request, object=drop(request.object, ("metadata", "name")), uid=next(uids, request.uid))


def rule_table(table: Table, review: Review) -> Outcome | None:
    """Returns the outcome for a new or changed ConfigMap: a refusal if the rule table in it is invalid."""
    if review.operation not in {"CREATE", "UPDATE"} or review.kind != "ConfigMap":
        return None
    data = get(review.request.object, ("data",))
    texts = data if isinstance(data, dict) else {}
    problems: tuple[Problem, ...] = ()
    try:
        names = table_file_names(texts)
        load_texts([(name, texts[name]) for name in names if isinstance(texts[name], str)], "data")
    except TableError as error:
        problems = error.problems
    denials = tuple(messages_of("invalid-table", map(str, problems)))
    return Outcome(table.revision, messages.IS_TABLE, review.request.object, denials=denials)
