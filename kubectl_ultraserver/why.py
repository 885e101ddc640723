"""Explains what a job waits for, with any placer; and why the webhook did not change it."""

from collections.abc import Iterator

from common.times import time_of
from contract import keys
from kubectl_ultraserver import messages
from kubectl_ultraserver.containers import launcher, missing, unstarted
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.kueue import queued
from kubectl_ultraserver.objects import NAME, labels, maps, metadata, text
from kubectl_ultraserver.scheduling import silence, unplaced
from kubectl_ultraserver.verify import misplaced
from placement.observe.model import COMPONENT

_ABOUT = {"node": "node", "claim": "pod"}
"""The kind of a finding from `misplaced`, if its subject is not an UltraServer."""


def why(case: Case) -> list[Finding]:
    """Returns everything that a job waits for or that is wrong with it, the first cause first. Pure.

    Empty for a job whose workers have their nodes and run.
    """
    if ended := case.ended():
        return [Finding("job", case.called.name, messages.ended(ended)), *unstarted(case)]
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
        details = (messages.event(text(event, "reason"), text(event, "message")) for event in events)
        silent = silence(case.lease, case.fleet.now)
        what, remedy = messages.leaves(dead, min(choices), silent), messages.GET_PODS if silent else ""
        yield Finding("program", COMPONENT, what, tuple(details), remedy)
        return
    yield Finding("program", COMPONENT, messages.stays(dead), (), messages.REPAIR)


def unmutated(case: Case) -> Iterator[Finding]:
    """Yields a finding if the webhook added nothing to a job."""
    if case.job and not case.marked:
        why, remedy = _reason(case)
        blocks = any(keys.ADDED_TO_POD in labels(pod, "annotations") for pod in case.pods)
        yield Finding("webhook", NAME, messages.added_nothing(why, blocks=blocks), (), remedy)


def _reason(case: Case) -> tuple[str, str]:
    """Returns why the webhook added nothing, and what to do."""
    there = case.namespace
    label = labels(case.space).get(keys.INJECT, "")
    if label in keys.OFF:
        return messages.opted_out(there, label), messages.opt_in(there)
    created, answer = time_of(metadata(case.job).get("creationTimestamp")), case.answer
    note = messages.by_policy(answer.get("policy"))
    if denials := answer.get("denials"):
        return messages.would_refuse(denials[0], note), messages.RECREATE
    if answer and not answer["patch"]:
        return messages.reason(answer["reason"], note), ""
    if case.registration is None:
        return messages.not_sent(text(case.job, "kind")), messages.RECREATE
    registered = time_of(metadata(case.registration).get("creationTimestamp"))
    if created and registered and created < registered:
        return messages.REGISTERED_LATER, messages.RECREATE
    written = (time_of(entry.get("time")) for entry in maps(case.rules, "metadata", "managedFields"))
    if created and any(time and created < time for time in written):
        return messages.table_changed(would=bool(answer)), messages.RECREATE
    policies = {text(hook, "failurePolicy") for hook in maps(case.registration, "webhooks")}
    why = messages.not_called(note, case.unasked, ignored="Ignore" in policies, asked=bool(answer))
    return why, messages.PODS_THEN_RECREATE


_LOOKS = (queued, missing, unmutated, unplaced, unstarted, _misplaced, _failed, launcher)
