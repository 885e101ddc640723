"""The texts of the plugin's findings, verdicts and refusals, each as a function of its values.

`VERDICTS` has the codes of the problems that ``verify`` finds. docs/reference.md lists them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from common import texts
from contract.keys import INJECT, ON_NODE_FAILURE, PLACE
from contract.place import Placer
from kubectl_ultraserver.objects import NAME
from placement.observe.model import COMPONENT

NAMED: Final = 4
"""Most names in a text; the others are counted."""

RECREATE: Final = "delete the job and apply it again: the webhook acts on creation only"
GET_PODS: Final = f"kubectl -n {NAME} get pods"
NO_NODE: Final = "none"


def few(names: Sequence[str]) -> str:
    return texts.few(names, NAMED)


# ---- The verdict of `verify` -------------------------------------------------------------------------------

VERDICTS: Final[Mapping[str, str]] = {
    "place": "has no readable placement annotation",
    "waiting": "waiting for nodes",
    "straddles": "straddles UltraServers",
    "shares": "shares an UltraServer with another job",
    "node": "is on nodes that cannot work together",
    "claim": "cannot work with its device claims",
}
"""The kinds of `Fault` in a sentence."""

UNKNOWN: Final = "cannot tell whether it is placed whole"
NO_WORKERS: Final = "it has no workers"


def not_whole(kinds: Iterable[str]) -> str:
    return f"not placed whole: {', '.join(VERDICTS[kind] for kind in kinds)}"


def whole(workers: int, units: str, size: int) -> str:
    return f"placed whole: {workers} workers on {units}, as node config {size} needs"


def unmarked(names: Sequence[str]) -> str:
    who = f"{few(names)}: " if names else ""
    return f"{who}no annotation {PLACE}: the webhook did not change it"


def of_pods(names: Sequence[str], text: str) -> str:
    return f"{few(names)}: {text}"


def without_node(names: Sequence[str], wanted: int) -> str:
    return f"{len(names)} of {wanted} workers have no node: {few(names)}"


def exist(count: int, wanted: int, absent: Sequence[str] = ()) -> str:
    which = f": there is no number {few(absent)}" if absent else ""
    return f"{count} of {wanted} workers exist{which}"


def crowded_node(node: str, count: int) -> str:
    return f"node {node} has {count} of its workers, and may have one"


def partial_block(unit: str, names: Sequence[str], size: int) -> str:
    return f"{unit} has {len(names)} of its workers, and node config {size} needs {size}: {few(names)}"


def on_node(worker: str, node: str, why: str) -> str:
    return f"{worker} is on node {node}, {why}"


NODE_GONE: Final = "which does not exist any more"
NODE_NOT_READY: Final = "which is not ready"


def no_unit(label: str, server: str | None, number: str) -> str:
    values = f"label {label} is {server or 'missing'}, node id {number or 'missing'}"
    hint = "" if server else "; labels come from the device plugin, the DRA driver or you"
    return f"which is in no working UltraServer: {values}{hint}"


def other_mode(mode: str, size: int) -> str:
    return f"whose mode {mode} has no node config {size}"


def other_claim(worker: str, claim: str, config: int, size: int) -> str:
    return f"{worker} has its devices by {claim}, with node config {config}; the job has {size}"


def shared(unit: str, holder: str, pod: str, node: str) -> str:
    return f"{unit} is shared with {holder} ({pod} on node {node})"


def outside(node: str) -> str:
    return f"node {node} is in no working UltraServer"


def node_outside(node: str, label: str, value: str | None) -> str:
    return f"node {node}: in no working UltraServer, label {label} is {value or 'missing'}"


# ---- `why`: the webhook ------------------------------------------------------------------------------------


def ended(how: str) -> str:
    return f"has ended: {how}"


def added_nothing(why: str, *, blocks: bool) -> str:
    return f"{'added blocks to its pods, and nothing to the job' if blocks else 'added nothing'}{why}"


def opted_out(namespace: str, value: str) -> str:
    return f": namespace {namespace} is opted out by label {INJECT}={value}"


def opt_in(namespace: str) -> str:
    return f"kubectl label namespace {namespace} {INJECT}-; {RECREATE}"


def by_policy(policy: str | None) -> str:
    return f", by the policy: {policy}" if policy else ""


def would_refuse(denial: str, policy: str) -> str:
    return f", and the rule table would refuse the job: {denial}{policy}"


def reason(text: str, policy: str) -> str:
    return f": {text}{'' if policy in text else policy}"


def not_sent(kind: str) -> str:
    return f": no MutatingWebhookConfiguration sends {kind}s to it"


REGISTERED_LATER: Final = ": it was registered after the job was created"


def table_changed(*, would: bool) -> str:
    return f": the rule table {'would now, and was' if would else 'was'} changed after the job was created"


def not_called(policy: str, unasked: str, *, ignored: bool, asked: bool) -> str:
    note = " (its failurePolicy is Ignore)" if ignored else ""
    if asked:
        return f", though the rule table would: it was not called, or did not answer{note}{policy}"
    return f": it was not called, did not answer{note}, or ignores such a job; {unasked}"


PODS_THEN_RECREATE: Final = f"{GET_PODS}; then {RECREATE}"


# ---- `why`: whole-job admission and the scheduler ----------------------------------------------------------


def leaves(nodes: Sequence[str], choice: str, silent: str) -> str:
    text = f"the job leaves {few(nodes)} ({ON_NODE_FAILURE}: {choice})"
    return f"{text}, but the program {silent}" if silent else text


def stays(nodes: Sequence[str]) -> str:
    return f"keeps the job on {few(nodes)}, and waits for the node"


REPAIR: Final = f"repair the node, or apply the job again with annotation {ON_NODE_FAILURE}: move"
NO_LEASE: Final = "does not run: it has no Lease, and pods with its gate wait"
LOGS: Final = f"kubectl -n {NAME} logs deployment/{COMPONENT}"


def event(reason: str, text: str) -> str:
    return f"{reason}: {text}"


def old_lease(at: datetime, holder: str) -> str:
    return f"does not run: its Lease was last renewed at {at:%H:%M:%S} UTC by {holder or 'no holder'}"


def foreign_gate(names: Sequence[str], gate: str, *, kueue: bool) -> str:
    return f"{few(names)}: scheduling gate {gate}, which {'Kueue' if kueue else 'its owner'} must remove"


def launcher_without_node(why: str) -> str:
    return f"the launcher has no node: {why or 'the scheduler has not looked at it yet'}"


def not_admitted(why: str) -> str:
    return f"does not admit the job: {why}"


def _there(units: Sequence[str]) -> str:
    return " ".join(units) or "where its workers are"


def would_admit(units: Sequence[str]) -> str:
    return f"would admit the job to {_there(units)}"


def will_admit(units: Sequence[str]) -> str:
    return f"is about to admit the job to {_there(units)}"


def could_admit(units: Sequence[str]) -> str:
    return f"could admit the job to {_there(units)}, and has not: it has stalled, or decides otherwise"


def last_event(text: str) -> str:
    return f"its last Event: {text}"


def not_scheduled(scheduler: str, *, new: bool) -> str:
    return f"scheduler {scheduler} has not looked at it{'' if new else ': is it running?'}"


NO_REASON: Final = "no reason given"


def room(units: Sequence[str]) -> str:
    there = " ".join(units) or "where the others are"
    return f"by nodes and devices there is room for it: {there}; its pods wait for another reason"


# ---- `why`: Kueue ------------------------------------------------------------------------------------------

NO_KUEUE: Final = "is named by the job, but Kueue is not installed in this cluster"
NO_WORKLOAD: Final = "has no Workload for the job yet"
WAITS_FOR_CHECKS: Final = "has reserved the job's quota, and waits for admission checks"
NOT_SEEN: Final = "has not looked at the job yet"
TOPOLOGY: Final = (
    "kubectl ultraserver topology: which jobs hold which UltraServer, and which nodes are broken"
)


def suspended(field: str) -> str:
    return f"is suspended ({field}), and by no queue"


def resume(namespace: str, job: str, policy: str) -> str:
    released = {"spec": {policy: {"suspend": False}} if policy else {"suspend": False}}
    return f"kubectl -n {namespace} patch {job} --type merge -p '{json.dumps(released)}'"


def integrations(kind: str) -> str:
    return f"check that Kueue runs and that its integrations list {kind}"


def kueue_evicted(reason: object, text: str) -> str:
    return f"evicted: {reason}: {text}".rstrip(": ")


def deactivated(workload: str) -> str:
    return f"Workload {workload} is deactivated (spec.active)"


def admission_check(name: object, state: object, text: str) -> str:
    return f"admission check {name}: {state}: {text}"


def waits_in_queue(what: str, why: str) -> str:
    return f"waits for {what}: {why}"


def describe_queue(namespace: str, queue: str) -> str:
    return f"kubectl -n {namespace} describe localqueue {queue}"


# ---- `why`: pods and containers ----------------------------------------------------------------------------

NO_STATUS: Final = "has not acted on the job: it has no status"
JOB_IS_NEW: Final = "may not have read the new job yet"
NO_LAUNCHER: Final = "the launcher is not created"


def controller(kind: str) -> str:
    return f"the controller of {kind}s"


def find_operator(operator: str) -> str:
    return f"kubectl get deployments -A: does {operator} run?"


def describe_job(namespace: str, job: str) -> str:
    return f"kubectl -n {namespace} describe {job}; a quota, perhaps"


def event_about(kind: object, name: object, reason: object, text: str) -> str:
    return f"{kind} {name}: {reason}: {text}"


def terminating(since: str, node: str) -> str:
    return f"terminating since {since}, on node {node or NO_NODE}"


def of_container(container: str, why: str) -> str:
    return f"container {container} {why}" if container else why


def launcher_waits_for_ready(names: Sequence[str]) -> str:
    why = "created when all workers are Ready (launcherCreationPolicy)"
    return f"the launcher is {why}: not yet {few(names)}"


def launcher_waits(names: Sequence[str]) -> str:
    return f"the launcher waits for its workers: not Ready are {few(names)}"


def init_failed(container: str, code: object, restarts: int) -> str:
    again = f", {restarts} restarts" if restarts else ""
    return f"init container {container} failed with exit code {code}{again}"


def init_container(container: str, state: str) -> str:
    return f"init container {container} {state}"


RUNNING: Final = "is running"


def container_logs(namespace: str, pod: str, container: str) -> str:
    return f"kubectl -n {namespace} logs {pod} -c {container}"


def container_waits(reason: str, text: str, code: object, before: object) -> str:
    last = f" (it ended before with exit code {code}: {before})" if code else ""
    return f"is waiting: {reason}: {text}".rstrip(": ") + last


def container_ended(code: object, reason: object, text: str) -> str:
    return f"ended with exit code {code}: {reason}: {text}".rstrip(": ")


# ---- `preview -f`: why the API server would store something else -------------------------------------------

NOTHING: Final = "nothing"
UNREADABLE_REGISTRATION: Final = "its registration may not be read (mutatingwebhookconfigurations)"
NO_REGISTRATION: Final = f"no MutatingWebhookConfiguration is called {NAME}"
SET_KINDS: Final = "set the value kinds, see docs/kinds.md"
WAIT_FOR_TABLE: Final = "wait a minute if the table was just changed; else kubectl ultraserver check"
OTHER_WRITER: Final = "changed a field that this one sets; or a policy did"
ANOTHER_NAME: Final = "kubectl ultraserver why, for the existing one; or another name"
BY_CONDITION: Final = "a match condition excludes it"
NO_ANSWER: Final = "it did not answer, and its failurePolicy is Ignore"
OTHER_TABLE: Final = "its replicas have another table"
ASK_CHECK: Final = "kubectl ultraserver check: do its replicas answer, and by which table?"


def excluded(who: str, selector: str, label: str) -> str:
    return f"{who} is excluded by its {selector}: label {label}"


def other_tables(there: Sequence[str], own: str) -> str:
    return f"its replicas use table {', '.join(there)}, the preview service table {own}"


def though(*, refuse: bool) -> str:
    return f"though the rule table would {'refuse' if refuse else 'change'} it"


def refused(why: str, *, ours: bool) -> str:
    other = ", by another table: that of the preview service would not" if ours else ""
    return f"refuses it{other}: {why}"


def did_nothing(would: str, why: str) -> str:
    return f"did nothing, {would}: {why}"


def is_not_called(would: str, why: str) -> str:
    return f"is not called, {would}: {why}"


def no_rule(resource: str) -> str:
    return f"no rule of its registration is for {resource}"


def undone(webhook: str) -> str:
    return f"{webhook} undid its changes"


def any_of(reasons: Iterable[str]) -> str:
    return "; or ".join(reasons)


def differs(path: str, value: str, wanted: str) -> str:
    return f"{path}: {value}, not {wanted}"


def not_served(kind: str, version: str) -> str:
    return f"it serves no {kind} of {version}; is the CRD installed?"


# ---- `preview --fit` ---------------------------------------------------------------------------------------

_OUTCOMES: Final = {
    Placer.WHOLE_JOB: "would get",
    Placer.SCHEDULER: "the scheduler chooses; there is room, for example",
    Placer.KUEUE: "Kueue admits it first; there is room, for example",
}


def fits(placer: Placer, units: Sequence[str], silent: str) -> str:
    text = f"{_OUTCOMES[placer]} {' '.join(units)}"
    return f"{text}; the placement program {silent}" if silent else text


def would_wait(why: str) -> str:
    return f"would wait: {why}"


def fit_unknown(error: Exception) -> str:
    return f"is not known: {error}"


def no_template(name: str, namespace: str) -> str:
    return f"there is no ResourceClaimTemplate {name} in namespace {namespace}: create it"


def note(text: str) -> str:
    return f"note: {text}"


# ---- Refusals ----------------------------------------------------------------------------------------------

_REMEDIES: Final = {
    403: "an administrator can give you the Role of docs/preview.md",
    404: "install the chart with the value preview: true",
    503: f"see kubectl --namespace {NAME} get deployment {NAME}-preview",
}
_REMEDY: Final = f"try kubectl --namespace {NAME} port-forward service/{NAME}-preview 8080:http"
_HOSTS: Final = "an administrator can add the name of the API server to the chart's value previewHosts"
_ROLE: Final = "docs/kubectl.md has a ClusterRole with all that it needs"


def service_refuses(status: int, error: object, *, forbidden: bool) -> str:
    return f"the preview service refuses ({status}): {error}{f'; {_HOSTS}' if forbidden else ''}"


def api_server_answers(status: int, text: object) -> str:
    return f"the API server answers {status}: {text}; {_REMEDIES.get(status, _REMEDY)}"


def service_cannot_read(error: Exception) -> str:
    return f"the preview service cannot read it: {error}"


def no_job(job: object, namespace: str) -> str:
    return f"there is no job {job} in namespace {namespace}"


def other_pods_unseen(why: str) -> str:
    return f"pods of other namespaces were not looked at: {why}"


def claims_unseen(error: Exception) -> str:
    return f"claimed devices were not looked at: {error}"


def lacks_right(what: str, why: str) -> str:
    return f"cannot {what}: {why}; it needs the right to {what}: {_ROLE}"
