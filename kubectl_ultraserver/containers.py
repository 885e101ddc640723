"""Explains why pods are missing or do not run, and what the launcher's two init containers wait for."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from common.texts import join_names
from common.times import time_of
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case, Finding, is_launcher
from kubectl_ultraserver.objects import at, is_true, maps_at, metadata, name_of, number_at, text_at
from kubectl_ultraserver.scheduling import GRACE

WAIT_CONTAINER: Final = "wait-hostfilename"
"""The launcher's first init container: it waits until all workers answer."""
SCRIPT_CONTAINER: Final = "ultraserver-init-container"
"""The launcher's second init container: it runs the init script."""
OPERATORS: Final = {"MPIJob": "mpi-operator"}
"""The names of operators by kind of job. For other kinds, `messages.controller` describes the operator."""
STARTING: Final = ("PodInitializing", "ContainerCreating")
"""The reasons of containers that are starting without a problem."""


def explain_missing_pods(case: Case) -> Iterator[Finding]:
    """Yields findings about pods that the job's operator has not created."""
    events = tuple(map(_event_text, case.events_about(case.owner_names)))
    has_no_objects = not case.job and not case.pods
    if case.is_suspended or has_no_objects or (case.worker_count <= len(case.workers) and case.pods):
        return
    creation_time = time_of(metadata(case.job).get("creationTimestamp"))
    if case.job and not case.pods and not at(case.job, "status"):
        kind = text_at(case.job, "kind")
        operator = OPERATORS.get(kind, messages.controller(kind))
        if events or (creation_time and case.fleet.now - creation_time > GRACE):
            remedy = "" if events else messages.find_operator(operator)
            yield Finding("no-status", "operator", operator, messages.NO_STATUS, events, remedy)
        else:
            yield Finding("new-job", "operator", operator, messages.JOB_IS_NEW)
        return
    existing_numbers = {worker.number for worker in case.workers}
    has_numbers = case.placement and case.placement.index and len(case.workers_by_job) == 1
    numbers = range(case.worker_count if has_numbers else 0)
    missing_numbers = [str(number) for number in numbers if number not in existing_numbers]
    problem = messages.workers_exist(len(case.workers), case.worker_count, missing_numbers)
    remedy = "" if events else messages.describe_job(case.namespace, f"{case.kind} {case.reference.name}")
    yield Finding("workers-missing", "job", case.reference.name, problem, events, remedy)


def _event_text(event: Object) -> str:
    involved = event.get("involvedObject")
    subject = at(involved, "kind"), at(involved, "name")
    return messages.event_about(*subject, event.get("reason"), text_at(event, "message"))


def explain_containers(case: Case) -> Iterator[Finding]:
    """Yields findings about pods that are being deleted, and containers that do not start or have failed."""
    names_by_problem: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for pod in case.pods:
        if metadata(pod).get("deletionTimestamp"):
            since, node = text_at(pod, "metadata", "deletionTimestamp"), text_at(pod, "spec", "nodeName")
            names_by_problem["", messages.terminating(since, node or "none")].append(name_of(pod))
        for status in _container_statuses(pod):
            name = text_at(status, "name")
            if name not in (WAIT_CONTAINER, SCRIPT_CONTAINER) and (problem := _why_not_running(status)):
                names_by_problem[name, problem].append(name_of(pod))
    for (container, problem), names in names_by_problem.items():
        subject = f"container {container} " if container else ""
        text = f"{join_names(names)}: {subject}{problem}"
        yield Finding("container-not-running" if container else "terminating", "pod", names[0], text)


def explain_launcher(case: Case) -> Iterator[Finding]:
    """Yields findings about a launcher that is not created, or whose init containers have not succeeded."""
    workers = [raw for worker in case.workers if not is_launcher(raw := case.pod_objects[worker.name])]
    unready_workers = [name_of(raw) for raw in workers if not is_true(raw, "Ready")]
    launchers = case.launchers
    policy = text_at(case.job, "spec", "launcherCreationPolicy")
    if not launchers and case.pods and policy == "WaitForWorkersReady" and unready_workers:
        text = messages.launcher_waits_for_ready(join_names(unready_workers))
        yield Finding("launcher-when-ready", "pod", unready_workers[0], text)
    elif not launchers and case.pods:
        name = f"{case.reference.name}-launcher"
        if events := tuple(map(_event_text, case.events_about([name]))):
            yield Finding("launcher-not-created", "job", name, messages.NO_LAUNCHER, events)
    for pod in launchers[-1:]:
        for status in _container_statuses(pod):
            if status.get("name") in (WAIT_CONTAINER, SCRIPT_CONTAINER):
                yield from _explain_init_container(pod, status, unready_workers)


def _explain_init_container(pod: Object, status: Object, unready_workers: list[str]) -> Iterator[Finding]:
    name, container = name_of(pod), text_at(status, "name")
    ending = at(status, "state", "terminated") or at(status, "lastState", "terminated")
    is_running = at(status, "state", "running") is not None
    message_lines = tuple(text_at(ending, "message").strip().splitlines())
    logs = messages.container_logs(text_at(pod, "metadata", "namespace"), name, container)
    has_failed = ending is not None and at(ending, "exitCode") != 0
    if has_failed and at(ending, "finishedAt"):
        problem = messages.init_failed(container, at(ending, "exitCode"), number_at(status, "restartCount"))
        yield Finding("init-failed", "pod", name, problem, message_lines, "" if message_lines else logs)
    if container == WAIT_CONTAINER and unready_workers and (is_running or has_failed):
        text = messages.launcher_waits(join_names(unready_workers))
        yield Finding("launcher-waits", "pod", unready_workers[0], text)
    elif is_running and not has_failed:
        text = messages.init_container(container, messages.RUNNING)
        yield Finding("init-running", "pod", name, text, (), logs)
    elif not has_failed and (problem := _why_not_running(status)):
        yield Finding("init-not-running", "pod", name, messages.init_container(container, problem))


def _container_statuses(pod: Object) -> Iterator[Object]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from maps_at(pod, "status", kind)


def _why_not_running(status: Object) -> str:
    """Returns why a container does not run; empty if it runs, starts or has ended without a problem."""
    waiting, ending = at(status, "state", "waiting"), at(status, "state", "terminated")
    last_ending = at(status, "lastState", "terminated")
    reason = text_at(waiting, "reason")
    if reason and reason not in STARTING:
        code_and_reason = at(last_ending, "exitCode"), at(last_ending, "reason")
        return messages.container_waits(reason, text_at(waiting, "message"), *code_and_reason)
    if ending and at(ending, "exitCode") != 0:
        text = text_at(ending, "message")
        return messages.container_ended(at(ending, "exitCode"), at(ending, "reason"), text).rstrip(": ")
    return ""
