"""Was a job mutated, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract import keys
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.objects import at, labels, mapping, maps, metadata, text, time_of
from webhook.engine import Request, evaluate
from webhook.rules.files import ordered
from webhook.rules.load import load_default, load_texts
from webhook.rules.problems import TableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.api import Object
    from kubectl_ultraserver.findings import Case
    from webhook.rows.table import Table

ANEW = "delete the job and apply it again: the webhook acts on creation only"


def mutated(case: Case) -> bool:
    """Whether the webhook added anything to the job, or to one of its pods."""
    roles = mapping(at(case.job, "spec", "mpiReplicaSpecs")).values()
    templates = [template for role in maps(list(roles)) if (template := mapping(role.get("template")))]
    return any(
        keys.ADDED in labels(found, "annotations") or keys.JOB in labels(found)
        for found in (*templates, *case.work.pods)
    )


def unmutated(case: Case) -> Iterator[Finding]:
    """Why the webhook added nothing to an MPIJob; nothing for one that has something, or another kind."""
    if case.work.job is not None and not mutated(case):
        why, remedy = _reason(case, case.work.job)
        blocks = any(keys.ADDED_TO_POD in labels(pod, "annotations") for pod in case.work.pods)
        what = "added blocks to its pods, and nothing to the job" if blocks else "added nothing"
        yield Finding("webhook", "ultraserver-webhook", f"{what}{why}", (), remedy)


def _reason(case: Case, job: Object) -> tuple[str, str]:
    """Why, and what to do about it."""
    there = case.work.namespace
    label = labels(case.namespace).get(keys.INJECT, "")
    if label in keys.OFF:
        remedy = f"kubectl label namespace {there} {keys.INJECT}-; {ANEW}"
        return f": namespace {there} is opted out by label {keys.INJECT}={label}", remedy
    table, whose, note = _table(case)
    outcome = evaluate(table, Request(job, there))
    if outcome.denials:
        return f", and {whose} would refuse the job: {outcome.denials[0]}{note}", ANEW
    if not outcome.operations:
        return f": {outcome.reason}{note}", ""
    if case.asked and case.registration is None:
        return ": no MutatingWebhookConfiguration sends MPIJobs to it", ANEW
    made, registered = (
        time_of(metadata(found or {}).get("creationTimestamp")) for found in (job, case.registration)
    )
    if made and registered and made < registered:
        return ": it was registered after the job was created", ANEW
    written = (time_of(entry.get("time")) for entry in maps(metadata(case.rules or {}).get("managedFields")))
    if made and any(time and made < time for time in written):
        return f": {whose} would now, and was changed after the job was created", ANEW
    why = f", though {whose} would: it was not called, or did not answer{_policy(case)}{note}"
    return why, f"kubectl -n ultraserver-webhook get pods; then {ANEW}"


def _table(case: Case) -> tuple[Table, str, str]:
    """The installation's rule table, or the packaged one; what it is called, and why it is not the former."""
    why = "is not there" if case.rules is None else "may not be read"
    if texts := mapping((case.rules or {}).get("data")):
        try:
            table = load_texts([(name, text(texts[name])) for name in ordered(texts)], "rules")
        except TableError:
            why = "is broken"
        else:
            return table, "the rule table", ""
    return load_default(), "the packaged table", f"; the installation's rule table {why}"


def _policy(case: Case) -> str:
    hooks = maps((case.registration or {}).get("webhooks"))
    policies = {text(hook.get("failurePolicy")) for hook in hooks}
    return " (its failurePolicy is Ignore)" if "Ignore" in policies else ""
