"""Pods that are missing or do not run, and the launcher's two init containers."""

from collections.abc import Iterator
from typing import Final

from common.times import time_of
from kube.api import Object
from kubectl_ultraserver.findings import Case, Finding, starts
from kubectl_ultraserver.objects import at, holds, maps, metadata, name_of, number, text
from kubectl_ultraserver.scheduling import GRACE
from kubectl_ultraserver.verify import few

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
        operator = OPERATORS.get(kind, f"the controller of {kind}s")
        if events or (created and case.fleet.now - created > GRACE):
            text_ = "has not acted on the job: it has no status"
            remedy = "" if events else f"kubectl get deployments -A: does {operator} run?"
            yield Finding("operator", operator, text_, events, remedy)
        else:
            yield Finding("operator", operator, "may not have read the new job yet")
        return
    there = {worker.number for worker in case.workers}
    numbered = case.place is not None and case.place.index is not None and len(case.jobs) == 1
    absent = [str(number) for number in range(case.wanted) if number not in there] if numbered else []
    which = f": there is no number {few(absent)}" if absent else ""
    text_ = f"{len(case.workers)} of {case.wanted} workers exist{which}"
    remedy = f"kubectl -n {case.namespace} describe {case.kind} {case.called.name}; a quota, perhaps"
    yield Finding("job", case.called.name, text_, events, "" if events else remedy)


def _event_line(event: Object) -> str:
    about = event.get("involvedObject")
    return f"{at(about, 'kind')} {at(about, 'name')}: {event.get('reason')}: {text(event, 'message')}"


def unstarted(case: Case) -> Iterator[Finding]:
    """Yields findings about containers that do not start, and pods that are being deleted or have failed."""
    pods: dict[tuple[str, str], list[str]] = {}
    for pod in case.pods:
        if metadata(pod).get("deletionTimestamp"):
            node = text(pod, "spec", "nodeName") or "none"
            key = ("", f"terminating since {metadata(pod)['deletionTimestamp']}, on node {node}")
            pods.setdefault(key, []).append(name_of(pod))
        for status in _statuses(pod):
            name = text(status, "name")
            if name not in (WAIT, INIT) and (why := _why(status)):
                pods.setdefault((name, why), []).append(name_of(pod))
    for (container, why), names in pods.items():
        yield Finding("pod", names[0], f"{few(names)}: {f'container {container} ' if container else ''}{why}")


def launcher(case: Case) -> Iterator[Finding]:
    """Yields findings about what the launcher waits for: its creation, its workers, the init script."""
    workers = [raw for worker in case.workers if not starts(raw := case.raw[worker.name])]
    unready = [name_of(raw) for raw in workers if not holds(raw, "Ready")]
    pods = case.launchers
    policy = text(case.job, "spec", "launcherCreationPolicy")
    if not pods and case.pods and policy == "WaitForWorkersReady" and unready:
        why = "created when all workers are Ready (launcherCreationPolicy)"
        yield Finding("pod", unready[0], f"the launcher is {why}: not yet {few(unready)}")
    elif not pods and case.pods:
        name = f"{case.called.name}-launcher"
        if events := tuple(map(_event_line, case.events_about([name]))):
            yield Finding("job", name, "the launcher is not created", events)
    for pod in pods[-1:]:
        for status in _statuses(pod):
            if status.get("name") in (WAIT, INIT):
                yield from _init(pod, status, unready)


def _init(pod: Object, status: Object, unready: list[str]) -> Iterator[Finding]:
    name, container = name_of(pod), status.get("name")
    ended = at(status, "state", "terminated") or at(status, "lastState", "terminated")
    running = at(status, "state", "running") is not None
    message = tuple(text(ended, "message").strip().splitlines())
    logs = f"kubectl -n {metadata(pod).get('namespace')} logs {name} -c {container}"
    failed = ended is not None and at(ended, "exitCode") != 0
    if failed and at(ended, "finishedAt"):
        times = number(status, "restartCount")
        again = f", {times} restarts" if times else ""
        text_ = f"init container {container} failed with exit code {at(ended, 'exitCode')}{again}"
        yield Finding("pod", name, text_, message, "" if message else logs)
    if container == WAIT and unready and (running or failed):
        yield Finding("pod", unready[0], f"the launcher waits for its workers: not Ready are {few(unready)}")
    elif running and not failed:
        yield Finding("pod", name, f"init container {container} is running", (), logs)
    elif not failed and (why := _why(status)):
        yield Finding("pod", name, f"init container {container} {why}")


def _statuses(pod: Object) -> Iterator[Object]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from maps(pod, "status", kind)


def _why(status: Object) -> str:
    """Returns why a container does not run; empty if it runs, or starts as usual."""
    waiting, ended = at(status, "state", "waiting"), at(status, "state", "terminated")
    last = at(status, "lastState", "terminated")
    reason = text(waiting, "reason")
    if reason and reason not in USUAL:
        code = at(last, "exitCode")
        before = f" (it ended before with exit code {code}: {at(last, 'reason')})" if code else ""
        return f"is waiting: {reason}: {text(waiting, 'message')}".rstrip(": ") + before
    if ended and at(ended, "exitCode") != 0:
        cause = f"{at(ended, 'exitCode')}: {at(ended, 'reason')}: {text(ended, 'message')}"
        return f"ended with exit code {cause}".rstrip(": ")
    return ""
