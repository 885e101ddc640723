"""Was a job mutated, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.objects import at, labels, mapping, maps, metadata, text, time_of
from webhook.engine import Request, evaluate, keys
from webhook.rules.load import load_default

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubectl_ultraserver.findings import Case

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
    if case.work.job is None or mutated(case):
        return
    name = "ultraserver-webhook"
    namespace = labels(case.namespace).get(keys.INJECT, "")
    if namespace in keys.OFF:
        text_ = (
            f"added nothing: namespace {case.work.namespace} is opted out by label {keys.INJECT}={namespace}"
        )
        yield Finding(
            "webhook",
            name,
            text_,
            (),
            f"kubectl label namespace {case.work.namespace} {keys.INJECT}-; {ANEW}",
        )
        return
    # The packaged table: an installation's own may say more, but candidates are mostly the same.
    outcome = evaluate(load_default(), Request(case.work.job, case.work.namespace))
    if outcome.denials:
        yield Finding(
            "webhook", name, f"added nothing, and would refuse the job: {outcome.denials[0]}", (), ANEW
        )
    elif not outcome.operations:
        yield Finding("webhook", name, f"added nothing: {outcome.reason}")
    elif case.asked and case.registration is None:
        yield Finding(
            "webhook", name, "added nothing: no MutatingWebhookConfiguration sends MPIJobs to it", (), ANEW
        )
    else:
        made, registered = (
            time_of(metadata(found or {}).get("creationTimestamp")) for found in (case.job, case.registration)
        )
        if made and registered and made < registered:
            yield Finding(
                "webhook", name, "added nothing: it was registered after the job was created", (), ANEW
            )
        else:
            yield Finding(
                "webhook",
                name,
                "added nothing, though the packaged table would: it was not called, or did not answer"
                + _policy(case),
                (),
                f"kubectl -n ultraserver-webhook get pods; then {ANEW}",
            )


def _policy(case: Case) -> str:
    hooks = maps((case.registration or {}).get("webhooks"))
    policies = {text(hook.get("failurePolicy")) for hook in hooks}
    return " (its failurePolicy is Ignore)" if "Ignore" in policies else ""
