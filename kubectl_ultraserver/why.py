"""Explains what a job of any placer waits for, and why the webhook did not change the job."""

from collections.abc import Iterator

from common.texts import join_names
from common.times import time_of
from contract import keys
from kubectl_ultraserver import messages
from kubectl_ultraserver.containers import explain_containers, explain_launcher, explain_missing_pods
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.kueue import explain_kueue
from kubectl_ultraserver.objects import NAME, labels, maps_at, metadata, text_at
from kubectl_ultraserver.scheduling import explain_unplaced, why_stopped
from kubectl_ultraserver.verify import misplaced_workers
from placement.observe.model import COMPONENT


def why(case: Case) -> list[Finding]:
    """Returns findings about a job, causes before effects (`_EXPLANATIONS`); none if nothing is wrong. Pure.

    For a job that has ended, the findings are about its end and its containers.
    """
    if end_reason := case.end_reason():
        text = messages.ended(end_reason)
        return [Finding("ended", "job", case.reference.name, text), *explain_containers(case)]
    return [finding for explain in _EXPLANATIONS for finding in explain(case)]


def _explain_misplaced(case: Case) -> Iterator[Finding]:
    for problem in misplaced_workers(case):
        is_node = problem.kind == "node" or problem.name in case.fleet.topology.nodes
        kind = "pod" if problem.kind == "claim" else "node" if is_node else "ultraserver"
        yield Finding(problem.kind, kind, problem.name, problem.text)


def _explain_dead_nodes(case: Case) -> Iterator[Finding]:
    """Yields what the placement program does with an admitted job on a node that is gone or not Ready."""
    admitted_workers = [worker for worker in case.workers if worker.admitted_at and worker.node]
    nodes = dict.fromkeys(worker.node for worker in admitted_workers)
    dead_nodes = [name for name in nodes if case.fleet.topology.why_dead(name)]
    if not dead_nodes:
        return
    choices = {worker.on_failure for worker in admitted_workers} - {""}
    if choices:
        events = case.events_about([pod.name for pod in admitted_workers], component=COMPONENT)
        details = (f"{text_at(event, 'reason')}: {text_at(event, 'message')}" for event in events)
        stopped_reason = why_stopped(case.lease, case.fleet.now)
        # Usually all workers have the same choice. If not, `min` selects the same choice in every call.
        problem = messages.job_leaves_dead_nodes(dead_nodes, min(choices), stopped_reason)
        remedy = messages.GET_PODS if stopped_reason else ""
        yield Finding("leaves-failed-nodes", "program", COMPONENT, problem, tuple(details), remedy)
    else:
        problem, remedy = messages.job_stays_on_dead_nodes(join_names(dead_nodes)), messages.REPAIR
        yield Finding("waits-for-failed-nodes", "program", COMPONENT, problem, (), remedy)


def explain_unchanged(case: Case) -> Iterator[Finding]:
    """Yields the reason why the webhook added nothing to a job, if it added nothing."""
    if case.job and not case.is_changed:
        code, why, remedy = _why_unchanged(case)
        pods_changed = any(keys.ADDED_TO_POD in labels(pod, "annotations") for pod in case.pods)
        problem = messages.added_nothing(why, pods_changed=pods_changed)
        yield Finding(code, "webhook", NAME, problem, (), remedy)


def _why_unchanged(case: Case) -> tuple[messages.Code, str, str]:
    """Returns why the webhook added nothing, as a code and a text, and what to do."""
    namespace = case.namespace
    label = labels(case.namespace_object).get(keys.INJECT, "")
    if label in keys.OPT_OUT_VALUES:
        return "namespace-opted-out", messages.opted_out(namespace, label), messages.opt_in(namespace)
    creation_time, preview_answer = time_of(metadata(case.job).get("creationTimestamp")), case.answer
    policy = preview_answer.get("policy")
    policy_text = messages.by_policy(policy) if policy else ""
    if denials := preview_answer.get("denials"):
        return "table-refuses", messages.would_refuse(denials[0], policy_text), messages.RECREATE
    if preview_answer and not preview_answer["patch"]:
        reason = preview_answer["reason"]
        return "nothing-to-add", f": {reason}{'' if policy_text in reason else policy_text}", ""
    if case.registration is None:
        return "kind-not-sent", messages.not_sent(text_at(case.job, "kind")), messages.RECREATE
    registration_time = time_of(metadata(case.registration).get("creationTimestamp"))
    if creation_time and registration_time and creation_time < registration_time:
        return "registered-later", messages.REGISTERED_LATER, messages.RECREATE
    write_times = (time_of(entry.get("time")) for entry in maps_at(case.rules, "metadata", "managedFields"))
    if creation_time and any(time and creation_time < time for time in write_times):
        why = messages.TABLE_CHANGED + (messages.WOULD_CHANGE if preview_answer else "")
        return "table-changed", why, messages.RECREATE
    policies = {text_at(hook, "failurePolicy") for hook in maps_at(case.registration, "webhooks")}
    why = messages.not_called(
        policy_text, case.no_preview_reason, may_fail="Ignore" in policies, would_change=bool(preview_answer)
    )
    return "not-called", why, messages.PODS_THEN_RECREATE


_EXPLANATIONS = (
    explain_kueue,
    explain_missing_pods,
    explain_unchanged,
    explain_unplaced,
    explain_containers,
    _explain_misplaced,
    _explain_dead_nodes,
    explain_launcher,
)
