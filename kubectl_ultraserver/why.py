"""Explains what a job waits for, with any placer; and why the webhook did not change it."""

from collections.abc import Iterator

from common.times import time_of
from contract import keys
from kubectl_ultraserver.containers import launcher, missing, unstarted
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.kueue import queued
from kubectl_ultraserver.objects import NAME, labels, maps, metadata, text
from kubectl_ultraserver.scheduling import silence, unplaced
from kubectl_ultraserver.verify import few, misplaced
from placement.observe.model import COMPONENT

_ABOUT = {"node": "node", "claim": "pod"}
"""The kind of a finding from `misplaced`, if its subject is not an UltraServer."""

RECREATE = "delete the job and apply it again: the webhook acts on creation only"


def why(case: Case) -> list[Finding]:
    """Returns everything that a job waits for or that is wrong with it, the first cause first. Pure.

    Empty for a job whose workers have their nodes and run.
    """
    if ended := case.ended():
        return [Finding("job", case.called.name, f"has ended: {ended}"), *unstarted(case)]
    return [finding for look in _LOOKS for finding in look(case)]


def _misplaced(case: Case) -> Iterator[Finding]:
    for problem in misplaced(case):
        yield Finding(_ABOUT.get(problem.kind, "ultraserver"), problem.name, problem.text)


def _failed(case: Case) -> Iterator[Finding]:
    """Yields a finding about what the placement program does with a job that it admitted, on a dead node."""
    admitted = [worker for worker in case.workers if worker.opened and worker.node]
    nodes = dict.fromkeys(worker.node for worker in admitted)
    dead = [name for name in nodes if case.fleet.topology.dead(name)]
    if not dead:
        return
    choices = {worker.on_failure for worker in admitted} - {""}
    if choices:
        events = case.events_about([pod.name for pod in admitted], component=COMPONENT)
        details = (f"{text(event, 'reason')}: {text(event, 'message')}" for event in events)
        what, remedy = f"the job leaves {few(dead)} ({keys.ON_NODE_FAILURE}: {min(choices)})", ""
        if silent := silence(case.lease, case.fleet.now):
            what, remedy = f"{what}, but the program {silent}", f"kubectl -n {NAME} get pods"
        yield Finding("program", COMPONENT, what, tuple(details), remedy)
        return
    remedy = f"repair the node, or apply the job again with annotation {keys.ON_NODE_FAILURE}: move"
    yield Finding("program", COMPONENT, f"leaves the job on {few(dead)}: it waits for the node", (), remedy)


def unmutated(case: Case) -> Iterator[Finding]:
    """Yields a finding if the webhook added nothing to a job."""
    if case.job and not case.marked:
        why, remedy = _reason(case)
        blocks = any(keys.ADDED_TO_POD in labels(pod, "annotations") for pod in case.pods)
        what = "added blocks to its pods, and nothing to the job" if blocks else "added nothing"
        yield Finding("webhook", NAME, f"{what}{why}", (), remedy)


def _reason(case: Case) -> tuple[str, str]:
    """Returns why the webhook added nothing, and what to do."""
    there = case.namespace
    label = labels(case.space).get(keys.INJECT, "")
    if label in keys.OFF:
        remedy = f"kubectl label namespace {there} {keys.INJECT}-; {RECREATE}"
        return f": namespace {there} is opted out by label {keys.INJECT}={label}", remedy
    created, answer = time_of(metadata(case.job).get("creationTimestamp")), case.answer
    note = f", by the policy: {answer['policy']}" if answer.get("policy") else ""
    if denials := answer.get("denials"):
        return f", and the rule table would refuse the job: {denials[0]}{note}", RECREATE
    if answer and not answer["patch"]:
        return f": {answer['reason']}{'' if note in answer['reason'] else note}", ""
    if case.registration is None:
        return f": no MutatingWebhookConfiguration sends {case.job.get('kind')}s to it", RECREATE
    registered = time_of(metadata(case.registration).get("creationTimestamp"))
    if created and registered and created < registered:
        return ": it was registered after the job was created", RECREATE
    written = (time_of(entry.get("time")) for entry in maps(case.rules, "metadata", "managedFields"))
    if created and any(time and created < time for time in written):
        now = "would now, and was" if answer else "was"
        return f": the rule table {now} changed after the job was created", RECREATE
    policies = {text(hook, "failurePolicy") for hook in maps(case.registration, "webhooks")}
    ignored = " (its failurePolicy is Ignore)" if "Ignore" in policies else ""
    if answer:
        why = f", though the rule table would: it was not called, or did not answer{ignored}{note}"
    else:
        why = f": it was not called, did not answer{ignored}, or ignores such a job; {case.unasked}"
    return why, f"kubectl -n {NAME} get pods; then {RECREATE}"


_LOOKS = (queued, missing, unmutated, unplaced, unstarted, _misplaced, _failed, launcher)
