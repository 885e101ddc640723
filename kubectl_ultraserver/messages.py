"""The texts of the plugin's findings, verifications and refusals.

A text with values is a function, mostly the ``format`` of a template. `ProblemCode` has the codes of the
problems of ``verify``. `WhyCode` and `PreviewCode` have the codes of findings. docs/reference.md lists them.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from common.texts import join_names
from common.times import clock_text, length_text
from contract.keys import INJECT, ON_NODE_FAILURE, PLACEMENT
from contract.placement import Placer
from kubectl_ultraserver.objects import NAME
from placement.observe.model import COMPONENT

RECREATE: Final = "delete the job and apply it again: an update adds nothing to it"
GET_PODS: Final = f"kubectl -n {NAME} get pods"
NOT_KNOWN: Final = "not known"
note: Final = "note: {}".format
more_details: Final = "and {} more: --output json has all".format
in_namespace: Final = "{} in namespace {}".format
listing: Final = "listing {}, page {}".format
check_counts: Final = "{} passed, {} warnings, {} failures".format


# ---- Codes of findings -------------------------------------------------------------------------------------

ProblemCode = Literal["placement", "waiting", "straddles", "shares", "node", "claim"]
_Job = Literal["ended", "suspended", "new-job", "no-status", "workers-missing"]
_Webhook = Literal["kind-not-sent", "registered-later", "not-called"]
_Table = Literal["namespace-opted-out", "nothing-to-add", "table-changed", "table-refuses"]
_Kueue = Literal["no-kueue", "no-workload", "deactivated", "admission-checks", "no-quota", "no-nodes"]
_Admission = Literal["not-admitted", "would-admit", "will-admit", "could-admit", "placement-stopped"]
_Scheduler = Literal["foreign-gate", "claims-unusable", "unschedulable", "not-scheduled"]
_Units = Literal["too-few-units", "enough-units", "leaves-failed-nodes", "waits-for-failed-nodes"]
_Pods = Literal["terminating", "container-not-running", "init-failed", "init-running", "init-not-running"]
_Launcher = Literal["launcher-not-created", "launcher-when-ready", "launcher-waits", "launcher-without-node"]
WhyCode = Literal[_Job, _Webhook, _Table, _Kueue, _Admission, _Scheduler, _Units, _Pods, _Launcher]
_Hook = Literal["kind-not-sent", "not-registered", "excluded", "did-nothing"]
PreviewCode = Literal[_Hook, "other-table", "other-writer", "refused"]
Code = WhyCode | PreviewCode | ProblemCode


# ---- The result of `verify` --------------------------------------------------------------------------------

PROBLEMS: Final[Mapping[ProblemCode, str]] = {
    "placement": "has no readable placement annotation",
    "waiting": "waiting for nodes",
    "straddles": "straddles UltraServers",
    "shares": "shares an UltraServer with another job",
    "node": "is on nodes that cannot work together",
    "claim": "cannot work with its device claims",
}
"""For each kind of `Problem`, the words for it in the result of ``verify``."""
UNKNOWN: Final = "cannot tell whether it is placed whole"
NO_WORKERS: Final = "it has no workers"
UNMARKED: Final = f"no annotation {PLACEMENT}: the webhook did not change it"
not_whole: Final = "not placed whole: {}".format
whole: Final = "placed whole: {} workers on {}, as node config {} needs".format
crowded_node: Final = "node {} has {} of the job's workers, and must have at most one".format
on_node: Final = "{} is on node {}, {}".format
NODE_GONE: Final = "which does not exist any more"
NODE_NOT_READY: Final = "which is not ready"
other_mode: Final = "whose mode {} has no node config {}".format
other_claim: Final = "{} gets its devices through {}, with node config {}; the job has node config {}".format
shared: Final = "{} is shared with {}, which has {} on node {}".format
outside: Final = "node {} is in no working UltraServer".format
node_outside: Final = "node {}: in no working UltraServer, label {} is {}".format
without_node: Final = "{} of {} workers have no node: {}".format
partial_block: Final = "{0} has {1} of the job's workers, and node config {2} needs {2}: {3}".format


def workers_exist(count: int, expected: int, missing_numbers: Sequence[str] = ()) -> str:
    missing = f": there is no number {join_names(missing_numbers)}" if missing_numbers else ""
    return f"{count} of {expected} workers exist{missing}"


def no_unit(label: str, server: str | None, number: str) -> str:
    values = f"label {label} is {server or 'missing'}, node id {number or 'missing'}"
    hint = "" if server else "; the device plugin, the DRA driver or you must set the label"
    return f"which is in no working UltraServer: {values}{hint}"


# ---- `topology` and `queue` --------------------------------------------------------------------------------

LEGEND: Final = ". free  A, B taken  a, b taken and sick  ! cordoned  x not ready  ? missing"
server_counts: Final = "{}: {} free, {} in use, {} broken{}".format
nodes_outside: Final = "; {} nodes in no UltraServer".format
nodes_claimed: Final = "{} of {} nodes claimed".format
nodes_missing: Final = "{} of {} nodes missing".format
ESTIMATE: Final = (
    "START about: an estimate. It assumes that no further jobs come, and that a job without a LIMIT runs for "
    "as long again as it has run, or for a day if it has not started"
)
EXACT: Final = (
    "START by: the latest time, if running jobs keep their limits and no job with a higher priority comes"
)
ORDER: Final = (
    "POSITION: jobs that start now, then the highest PRIORITY, then the largest (age + 10 min) / "
    "(SHARE + 10%)³. The age begins at SINCE. SHARE is the part of all nodes with devices that the namespace "
    "uses, so the order changes when jobs start or end"
)
RESERVED: Final = (
    "RESERVED: the units that become free for the job. Other jobs start on these units only if they end "
    "before START"
)
AHEAD: Final = (
    "ahead of: a job starts before jobs with an earlier position, because these jobs cannot start then: they "
    "need more units, would run into a reservation (a shorter LIMIT helps), or their SHARE rose"
)
ENDLESS: Final = "not known: the job waits for jobs or Pods without a known end, or for too many jobs"
out_of_time: Final = (
    "the computation ends after {:g} seconds: the times of jobs that would start later are not known"
).format
computing: Final = "computing when jobs start, for {:.0f} s at most".format
NO_JOB_WAITS: Final = "No job waits."
UNKNOWN_NEXT: Final = "which job is next is not known"
NONE_ADMITTED: Final = "none can be admitted at present"
NEXT: Final = "is next"
FIRST: Final = "is first in the order"
HAS_RESERVATION: Final = "has the reservation"
starts_ahead: Final = "{} {}, ahead of {}".format
first_job: Final = "{} {} and {}".format
starts_after: Final = "{}; starts {}".format
UNKNOWN_POSITION: Final = "waits; its position in the queue is not known"
position: Final = "waits in position {} of {}, and {}".format
blocked: Final = "is blocked: {}".format
fits_units: Final = "fits {}; see its Events if it still waits".format
unknown_times: Final = "{}; so positions and times are not known".format
may_lose_units: Final = "jobs of other namespaces may use the reserved units before {}".format
program_stopped: Final = "the placement program {}".format
WAITS_FOR_NOTHING: Final = "waits for nothing"
HAVE_NODES: Final = "its workers have their nodes"


def jobs_wait(count: int, blocked_count: int, time: str) -> str:
    text = f"{count} jobs wait at {time} UTC" if count > 1 else f"1 job waits at {time} UTC"
    return f"{text}, {blocked_count} of them blocked" if 0 < blocked_count < count else text


def fit_now(jobs: Sequence[str]) -> str:
    return f"{join_names(jobs)} fit{'' if len(jobs) > 1 else 's'} now"


def start_note(after: Iterable[str], waiting: Collection[str], later: Sequence[str]) -> str:
    jobs = [f"{job} (which also waits)" if job in waiting else job for job in after]
    ends = f"when {join_names(jobs)} end{'' if len(jobs) > 1 else 's'}" if jobs else ""
    return ", ".join(filter(None, (ends, f"ahead of {join_names(later)}" if later else "")))


def start_text(start: datetime | None, latest: datetime | None, now: datetime) -> str:
    if not start or start == now:
        return "now" if start else ""
    times = [] if start == latest else [f"about {clock_text(start, now)}"]
    return f"{', '.join([*times, f'by {clock_text(latest, now)}'] if latest else times)} UTC"


def expected_start(start: datetime | None, latest: datetime | None, now: datetime) -> str:
    if not start:
        return "its start time is not known"
    return f"starts in {length_text(start - now)} ({start_text(start, latest, now)})"


# ---- `why`: the webhook ------------------------------------------------------------------------------------

ended: Final = "has ended: {}".format
opted_out: Final = f": namespace {{}} is opted out by label {INJECT}={{}}".format
opt_in: Final = f"kubectl label namespace {{}} {INJECT}-; {RECREATE}".format
would_refuse: Final = ", and the rule table would refuse the job: {}{}".format
not_sent: Final = ": no MutatingWebhookConfiguration sends {}s to it".format
REGISTERED_LATER: Final = ": it was registered after the job was created"
by_policy: Final = ", by the policy: {}".format
TABLE_CHANGED: Final = ": the rule table was changed after the job was created"
WOULD_CHANGE: Final = ", and would now change the job"
PODS_THEN_RECREATE: Final = f"{GET_PODS}; then {RECREATE}"


def added_nothing(why: str, *, pods_changed: bool) -> str:
    return f"{'changed only the pods of the job, not the job' if pods_changed else 'added nothing'}{why}"


def not_called(policy: str, no_preview_reason: str, *, may_fail: bool, would_change: bool) -> str:
    note = " (its failurePolicy is Ignore)" if may_fail else ""
    if would_change:
        return f", though the rule table would: the webhook was not called, or did not answer{note}{policy}"
    return f": it was not called, did not answer{note}, or ignores such a job; {no_preview_reason}"


# ---- `why`: whole-job admission and the scheduler ----------------------------------------------------------

REPAIR: Final = f"repair the node, or apply the job again with annotation {ON_NODE_FAILURE}: move"
NO_LEASE: Final = "does not run: it has no Lease, and pods with its gate wait"
LOGS: Final = f"kubectl -n {NAME} logs deployment/{COMPONENT}"
foreign_gate: Final = "{}: scheduling gate {}, which {} must remove".format
not_admitted: Final = "does not admit the job: {}".format
last_event: Final = "its last Event: {}".format
NO_REASON: Final = "no reason given"
job_stays_on_dead_nodes: Final = "keeps the job on {}, and waits for the node".format
launcher_without_node: Final = "the launcher has no node: {}".format
NOT_TRIED: Final = "the scheduler has not tried to place it yet"
WHERE_WORKERS_ARE: Final = "where its workers are"
would_admit: Final = "would admit the job to {}".format
will_admit: Final = "is about to admit the job to {}".format
could_admit: Final = (
    "could admit the job to {}, but has not: it has stalled, or a job with a reservation comes first"
).format
enough_nodes: Final = (
    "there are enough nodes and devices for the job: {}; its pods wait for another reason"
).format


def job_leaves_dead_nodes(nodes: Sequence[str], choice: str, stopped_reason: str) -> str:
    text = f"the job leaves {join_names(nodes)} ({ON_NODE_FAILURE}: {choice})"
    return f"{text}, but the program {stopped_reason}" if stopped_reason else text


def old_lease(at: datetime, holder: str) -> str:
    by_holder = f" by {holder}" if holder else ", and no replica holds it"
    return f"does not run: its Lease was last renewed at {at:%H:%M:%S} UTC{by_holder}"


def not_scheduled(scheduler: str, *, is_new: bool) -> str:
    return f"scheduler {scheduler} has not tried to place it{'' if is_new else ': does this scheduler run?'}"


# ---- `why`: Kueue ------------------------------------------------------------------------------------------

NO_KUEUE: Final = "is named by the job, but Kueue is not installed in this cluster"
NO_WORKLOAD: Final = "has no Workload for the job yet"
WAITS_FOR_CHECKS: Final = "has reserved the job's quota, and waits for admission checks"
NOT_SEEN: Final = "Kueue has not processed the job yet"
TOPOLOGY: Final = (
    "kubectl ultraserver topology: which jobs hold which UltraServer, and which nodes are broken"
)
suspended: Final = "is suspended ({}), but not by a queue".format
integrations: Final = "check that Kueue runs and that its integrations include {}".format
deactivated: Final = "Workload {} is deactivated (spec.active)".format
admission_check: Final = "admission check {}: {}: {}".format
waits_in_queue: Final = "waits for {}: {}".format
describe_queue: Final = "kubectl -n {} describe localqueue {}".format
kueue_evicted: Final = "evicted: {}: {}".format


def resume(namespace: str, job: str, policy: str) -> str:
    change = {"spec": {policy: {"suspend": False}} if policy else {"suspend": False}}
    return f"kubectl -n {namespace} patch {job} --type merge -p '{json.dumps(change)}'"


# ---- `why`: pods and containers ----------------------------------------------------------------------------

NO_STATUS: Final = "has not acted on the job: it has no status"
JOB_IS_NEW: Final = "may not have read the new job yet"
NO_LAUNCHER: Final = "the launcher is not created"
controller: Final = "the controller of {}s".format
find_operator: Final = "kubectl get deployments -A: does {} run?".format
describe_job: Final = "kubectl -n {} describe {}; a quota may prevent the pods".format
event_about: Final = "{} {}: {}: {}".format
init_container: Final = "init container {} {}".format
RUNNING: Final = "is running"
container_logs: Final = "kubectl -n {} logs {} -c {}".format
terminating: Final = "terminating since {}, on node {}".format
container_ended: Final = "ended with exit code {}: {}: {}".format
launcher_waits: Final = "the launcher waits for its workers; not Ready: {}".format
launcher_waits_for_ready: Final = (
    "the launcher is created when all workers are Ready (launcherCreationPolicy); not Ready: {}"
).format


def init_failed(container: str, code: object, restarts: int) -> str:
    restart_text = f", {restarts} restarts" if restarts else ""
    return f"init container {container} failed with exit code {code}{restart_text}"


def container_waits(reason: str, text: str, exit_code: object, ending_reason: object) -> str:
    ending = f" (it ended before with exit code {exit_code}: {ending_reason})" if exit_code else ""
    return f"is waiting: {reason}: {text}".rstrip(": ") + ending


# ---- `preview -f`: why the API server would not store what the preview shows -------------------------------

NOTHING: Final = "nothing"
FILE_OR_WEB: Final = "name a file with --filename, or open the page with --web, but not both"
NO_OBJECTS: Final = "the files contain no objects: name a file with a job"
only_dry_run: Final = "note: only the dry run is done: {}".format
table_revision: Final = "the rule table, revision {}".format
UNREADABLE_REGISTRATION: Final = "you may not read its registration (mutatingwebhookconfigurations)"
NO_REGISTRATION: Final = f"no MutatingWebhookConfiguration has {NAME} in its name"
SET_KINDS: Final = "add the kind to the chart's value kinds: see docs/kinds.md"
WAIT_FOR_TABLE: Final = "wait two minutes if the table was just changed; or run kubectl ultraserver check"
OTHER_WRITER: Final = "changed a field that the installation sets, or an admission policy did"
ANOTHER_NAME: Final = "use another name, or see kubectl ultraserver why for the existing object"
BY_CONDITION: Final = "a match condition excludes the object"
NO_ANSWER: Final = "the webhook did not answer, and its failurePolicy is Ignore"
REPLICAS_HAVE_OTHER_TABLE: Final = "its replicas have another table"
ASK_CHECK: Final = "run kubectl ultraserver check: do the webhook's replicas answer, and with which table?"
tables_differ: Final = "its replicas use table {}, and the preview service uses table {}".format
excluded: Final = "{} is excluded by the webhook's {}: label {}".format
contrary_to_table: Final = "though the rule table would {} it".format
did_nothing: Final = "did nothing, {}: {}".format
is_not_called: Final = "is not called, {}: {}".format
no_rule: Final = "no rule of its registration is for {}".format
undone: Final = "{} undid its changes".format
unexpected_value: Final = "{}: {}, not {}".format
not_served: Final = "it serves no {} of {}; is the CRD installed?".format


def refused(why: str, *, ours: bool) -> str:
    cause = ", because the webhook uses another table than the preview service" if ours else ""
    return f"refuses it{cause}: {why}"


def server_answer(*, stores: bool, differs: bool) -> str:
    if stores:
        return "would store something else:" if differs else "would store what the preview shows"
    return "would not store it:" if differs else "refuses it, as the table does"


# ---- `preview --fit` ---------------------------------------------------------------------------------------

_OUTCOMES: Final = {
    Placer.WHOLE_JOB: "would get",
    Placer.SCHEDULER: "the scheduler chooses the nodes, for example",
    Placer.GANG: "the scheduler chooses the nodes of all workers together, for example",
    Placer.KUEUE: "Kueue admits the job first; then it could get, for example,",
}
would_wait: Final = "would wait: {}".format
fit_unknown: Final = "is not known: {}".format
no_template: Final = "there is no ResourceClaimTemplate {} in namespace {}: create it".format


def fits(placer: Placer, units: Sequence[str], stopped_reason: str) -> str:
    text = f"{_OUTCOMES[placer]} {' '.join(units)}"
    return f"{text}; {program_stopped(stopped_reason)}" if stopped_reason else text


# ---- Calls, and the page of `preview --web` ----------------------------------------------------------------

service_refuses: Final = "the preview service refuses ({}): {}".format
ADD_HOST: Final = "; an administrator can add the name of the API server to the chart's value previewHosts"
api_server_answers: Final = "the API server answers {}: {}; {}".format
REMEDIES: Final = {
    403: "an administrator can give you the Role of docs/preview.md",
    404: "install the chart with the value preview: true",
    503: f"see kubectl --namespace {NAME} get deployment {NAME}-preview",
}
PORT_FORWARD: Final = f"try kubectl --namespace {NAME} port-forward service/{NAME}-preview 8080:http"
_ROLE: Final = "docs/kubectl.md has a ClusterRole with all rights of the plugin"
NO_KUBECTL: Final = "kubectl is not on the PATH, and calls to the API server go through it: install it"
NO_KUBECONFIG: Final = "no kubeconfig names a cluster: set KUBECONFIG, or name a --kubeconfig or a --context"
unreachable: Final = "cannot reach the API server: {}".format
bad_kubeconfig: Final = "cannot reach the API server: {}; see --kubeconfig and --context".format
open_page: Final = "Open {} in a browser; the address works once, and Ctrl-C ends the page.".format
OTHER_HOST: Final = "this host name is not allowed: use the address that the command prints"
NO_COOKIE: Final = "open the address that kubectl ultraserver preview --web prints"
USED_ADDRESS: Final = "this address works only once: run kubectl ultraserver preview --web again"
NO_PAGE: Final = "there is no such page"
NO_LENGTH: Final = "a body needs a Content-Length"
too_long: Final = "a body has a length of at most {} bytes".format
service_cannot_read: Final = "the preview service cannot read the object: {}".format
not_a_job: Final = "{!r} is not a job: write NAME or KIND/NAME, for example train or mpijob/train".format
no_job: Final = "there is no job {} in namespace {}".format
other_pods_unseen: Final = "pods of other namespaces were not examined: {}".format
claims_unseen: Final = "claimed devices were not examined: {}".format
lacks_right: Final = f"cannot {{0}}: {{1}}; you need the right to {{0}}: {_ROLE}".format
