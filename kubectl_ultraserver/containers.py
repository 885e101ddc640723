"""Pods that are missing or do not run, and the launcher's two init containers."""

from collections.abc import Iterator
from typing import Final

from common.times import time_of
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case, Finding, starts
from kubectl_ultraserver.objects import at, holds, maps, metadata, name_of, number, text
from kubectl_ultraserver.scheduling import GRACE

WAIT: Final = "wait-hostfilename"
"""The launcher's first init container: it waits until all workers answer."""
INIT: Final = "ultraserver-init-container"
"""The second one: it runs the init script."""
OPERATORS: Final = {"MPIJob": "mpi-operator"}
"""The operators of kinds that are not named after the kind."""
USUAL: Final = ("PodInitializing", "ContainerCreating")
"""Reasons of containers that are starting as usual."""


def missing(case: Case) -> Iterator[Finding]:
    """Yields findings about pods that the job's operator has not created."""
    events = tuple(map(_event_line, case.events_about(case.owners)))
    unknown = not case.job and not case.pods
    if case.suspended or unknown or (case.wanted <= len(case.workers) and case.pods):
        return
    created = time_of(metadata(case.job).get("creationTimestamp"))
    if case.job and not case.pods and not at(case.job, "status"):
        kind = text(case.job, "kind")
        operator = OPERATORS.get(kind, messages.controller(kind))
        if events or (created and case.fleet.now - created > GRACE):
            remedy = "" if events else messages.find_operator(operator)
            yield Finding("operator", operator, messages.NO_STATUS, events, remedy)
        else:
            yield Finding("operator", operator, messages.JOB_IS_NEW)
        return
    there = {worker.number for worker in case.workers}
    numbered = case.place is not None and case.place.index is not None and len(case.jobs) == 1
    absent = [str(number) for number in range(case.wanted) if number not in there] if numbered else []
    text_ = messages.exist(len(case.workers), case.wanted, absent)
    remedy = messages.describe_job(case.namespace, f"{case.kind} {case.called.name}")
    yield Finding("job", case.called.name, text_, events, "" if events else remedy)


def _event_line(event: Object) -> str:
    about = event.get("involvedObject")
    names = at(about, "kind"), at(about, "name")
    return messages.event_about(*names, event.get("reason"), text(event, "message"))


def unstarted(case: Case) -> Iterator[Finding]:
    """Yields findings about containers that do not start, and pods that are being deleted or have failed."""
    pods: dict[tuple[str, str], list[str]] = {}
    for pod in case.pods:
        if metadata(pod).get("deletionTimestamp"):
            since, node = text(pod, "metadata", "deletionTimestamp"), text(pod, "spec", "nodeName")
            pods.setdefault(("", messages.terminating(since, node)), []).append(name_of(pod))
        for status in _statuses(pod):
            name = text(status, "name")
            if name not in (WAIT, INIT) and (why := _why(status)):
                pods.setdefault((name, why), []).append(name_of(pod))
    for (container, why), names in pods.items():
        yield Finding("pod", names[0], messages.of_pods(names, messages.of_container(container, why)))


def launcher(case: Case) -> Iterator[Finding]:
    """Yields findings about what the launcher waits for: its creation, its workers, the init script."""
    workers = [raw for worker in case.workers if not starts(raw := case.raw[worker.name])]
    unready = [name_of(raw) for raw in workers if not holds(raw, "Ready")]
    pods = case.launchers
    policy = text(case.job, "spec", "launcherCreationPolicy")
    if not pods and case.pods and policy == "WaitForWorkersReady" and unready:
        yield Finding("pod", unready[0], messages.launcher_waits_for_ready(unready))
    elif not pods and case.pods:
        name = f"{case.called.name}-launcher"
        if events := tuple(map(_event_line, case.events_about([name]))):
            yield Finding("job", name, messages.NO_LAUNCHER, events)
    for pod in pods[-1:]:
        for status in _statuses(pod):
            if status.get("name") in (WAIT, INIT):
                yield from _init(pod, status, unready)


def _init(pod: Object, status: Object, unready: list[str]) -> Iterator[Finding]:
    name, container = name_of(pod), text(status, "name")
    ended = at(status, "state", "terminated") or at(status, "lastState", "terminated")
    running = at(status, "state", "running") is not None
    message = tuple(text(ended, "message").strip().splitlines())
    logs = messages.container_logs(text(pod, "metadata", "namespace"), name, container)
    failed = ended is not None and at(ended, "exitCode") != 0
    if failed and at(ended, "finishedAt"):
        text_ = messages.init_failed(container, at(ended, "exitCode"), number(status, "restartCount"))
        yield Finding("pod", name, text_, message, "" if message else logs)
    if container == WAIT and unready and (running or failed):
        yield Finding("pod", unready[0], messages.launcher_waits(unready))
    elif running and not failed:
        yield Finding("pod", name, messages.init_container(container, messages.RUNNING), (), logs)
    elif not failed and (why := _why(status)):
        yield Finding("pod", name, messages.init_container(container, why))


def _statuses(pod: Object) -> Iterator[Object]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from maps(pod, "status", kind)


def _why(status: Object) -> str:
    """Returns why a container does not run; empty if it runs, or starts as usual."""
    waiting, ended = at(status, "state", "waiting"), at(status, "state", "terminated")
    last = at(status, "lastState", "terminated")
    reason = text(waiting, "reason")
    if reason and reason not in USUAL:
        before = at(last, "exitCode"), at(last, "reason")
        return messages.container_waits(reason, text(waiting, "message"), *before)
    if ended and at(ended, "exitCode") != 0:
        return messages.container_ended(at(ended, "exitCode"), at(ended, "reason"), text(ended, "message"))
    return ""
