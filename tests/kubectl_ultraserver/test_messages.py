"""Tests of the exact texts of the plugin."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from contract.placement import Placer
from kubectl_ultraserver import messages
from tests import texts
from tests.docs.tables import meanings

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
ONE_O_CLOCK, TWO_O_CLOCK = NOON.replace(hour=13), NOON.replace(hour=14)
ON_NODE_FAILURE = "ultraserver-webhook.io/on-node-failure"
LABEL_HINT = "the device plugin, the DRA driver or you must set the label"

TEXTS = [
    (messages.workers_exist(3, 4), "3 of 4 workers exist"),
    (messages.workers_exist(3, 4, ["2"]), "3 of 4 workers exist: there is no number 2"),
    (
        messages.no_unit("l", "s", "1"),
        "which is in no working UltraServer: label l is s, node id 1",
    ),
    (
        messages.no_unit("l", None, ""),
        f"which is in no working UltraServer: label l is missing, node id missing; {LABEL_HINT}",
    ),
    (messages.jobs_wait(1, 1, "12:00"), "1 job waits at 12:00 UTC"),
    (messages.jobs_wait(2, 0, "12:00"), "2 jobs wait at 12:00 UTC"),
    (messages.jobs_wait(2, 1, "12:00"), "2 jobs wait at 12:00 UTC, 1 of them blocked"),
    (messages.fit_now(["a"]), "a fits now"),
    (messages.fit_now(["a", "b"]), "a, b fit now"),
    (messages.start_note(["a"], ["a"], ()), "when a (which also waits) ends"),
    (messages.start_note(["a", "b"], (), ["c"]), "when a, b end, ahead of c"),
    (messages.start_note((), (), ["c"]), "ahead of c"),
    (messages.start_text(None, None, NOON), ""),
    (messages.start_text(NOON, NOON, NOON), "now"),
    (messages.start_text(ONE_O_CLOCK, ONE_O_CLOCK, NOON), "by 13:00 UTC"),
    (messages.start_text(ONE_O_CLOCK, TWO_O_CLOCK, NOON), "about 13:00, by 14:00 UTC"),
    (messages.start_text(ONE_O_CLOCK, None, NOON), "about 13:00 UTC"),
    (messages.expected_start(None, None, NOON), "its start time is not known"),
    (messages.expected_start(ONE_O_CLOCK, ONE_O_CLOCK, NOON), "starts in 60 min (by 13:00 UTC)"),
    (messages.added_nothing(": why", pods_changed=False), "added nothing: why"),
    (
        messages.added_nothing(": why", pods_changed=True),
        "changed only the pods of the job, not the job: why",
    ),
    (
        messages.not_called("", "", may_fail=True, would_change=True),
        (
            ", though the rule table would: the webhook was not called, or did not answer "
            "(its failurePolicy is Ignore)"
        ),
    ),
    (
        messages.not_called("", "why", may_fail=False, would_change=False),
        ": it was not called, did not answer, or ignores such a job; why",
    ),
    (messages.job_leaves_dead_nodes(["n"], "move", ""), f"the job leaves n ({ON_NODE_FAILURE}: move)"),
    (
        messages.job_leaves_dead_nodes(["n"], "move", "does not run"),
        f"the job leaves n ({ON_NODE_FAILURE}: move), but the program does not run",
    ),
    (
        messages.old_lease(NOON, ""),
        "does not run: its Lease was last renewed at 12:00:00 UTC, and no replica holds it",
    ),
    (messages.not_scheduled("s", is_new=True), "scheduler s has not tried to place it"),
    (
        messages.not_scheduled("s", is_new=False),
        "scheduler s has not tried to place it: does this scheduler run?",
    ),
    (
        messages.resume("ns", "mpijob j", "runPolicy"),
        """kubectl -n ns patch mpijob j --type merge -p '{"spec": {"runPolicy": {"suspend": false}}}'""",
    ),
    (
        messages.resume("ns", "job j", ""),
        """kubectl -n ns patch job j --type merge -p '{"spec": {"suspend": false}}'""",
    ),
    (messages.init_failed("c", 1, 0), "init container c failed with exit code 1"),
    (messages.init_failed("c", 1, 2), "init container c failed with exit code 1, 2 restarts"),
    (messages.container_waits("R", "", 0, ""), "is waiting: R"),
    (
        messages.container_waits("R", "text", 1, "Error"),
        "is waiting: R: text (it ended before with exit code 1: Error)",
    ),
    (messages.refused("why", ours=False), "refuses it: why"),
    (
        messages.refused("why", ours=True),
        "refuses it, because the webhook uses another table than the preview service: why",
    ),
    (messages.server_answer(stores=True, differs=False), "would store what the preview shows"),
    (messages.server_answer(stores=True, differs=True), "would store something else:"),
    (messages.server_answer(stores=False, differs=False), "refuses it, as the table does"),
    (messages.server_answer(stores=False, differs=True), "would not store it:"),
    (messages.fits(Placer.WHOLE_JOB, ["us"], ""), "would get us"),
    (
        messages.fits(Placer.GANG, ["us"], ""),
        "the scheduler chooses the nodes of all workers together, for example us",
    ),
    (
        messages.fits(Placer.KUEUE, ["us"], "does not run"),
        "Kueue admits the job first; then it could get, for example, us; the placement program does not run",
    ),
]


CONSTANTS = {
    "RECREATE": "delete the job and apply it again: an update adds nothing to it",
    "GET_PODS": "kubectl -n ultraserver-webhook get pods",
    "NOT_KNOWN": "not known",
    "note": "note: {}",
    "more_details": "and {} more: --output json has all",
    "in_namespace": "{} in namespace {}",
    "listing": "listing {}, page {}",
    "check_counts": "{} passed, {} warnings, {} failures",
    "UNKNOWN": "cannot tell whether it is placed whole",
    "NO_WORKERS": "it has no workers",
    "whole": "placed whole: {} workers on {}, as node config {} needs",
    "crowded_node": "node {} has {} of the job's workers, and must have at most one",
    "on_node": "{} is on node {}, {}",
    "NODE_GONE": "which does not exist any more",
    "NODE_NOT_READY": "which is not ready",
    "other_mode": "whose mode {} has no node config {}",
    "other_claim": "{} gets its devices through {}, with node config {}; the job has node config {}",
    "shared": "{} is shared with {}, which has {} on node {}",
    "outside": "node {} is in no working UltraServer",
    "LEGEND": ". free  A, B taken  a, b taken and sick  ! cordoned  x not ready  ? missing",
    "server_counts": "{}: {} free, {} in use, {} broken{}",
    "nodes_outside": "; {} nodes in no UltraServer",
    "nodes_claimed": "{} of {} nodes claimed",
    "nodes_missing": "{} of {} nodes missing",
    "ESTIMATE": (
        "START about: an estimate. It assumes that no further jobs come, and that a job without a LIMIT runs "
        "for as long again as it has run, or for a day if it has not started"
    ),
    "EXACT": (
        "START by: the latest time, if running jobs keep their limits and no job with a higher priority comes"
    ),
    "ORDER": (
        "POSITION: jobs that start now, then the highest PRIORITY, then the largest (age + 10 min) / "
        "(SHARE + 10%)³. The age begins at SINCE. SHARE is the part of all nodes with devices that the "
        "namespace uses, so the order changes when jobs start or end"
    ),
    "RESERVED": (
        "RESERVED: the units that become free for the job. Other jobs start on these units only if they end "
        "before START"
    ),
    "AHEAD": (
        "ahead of: a job starts before jobs with an earlier position, because these jobs cannot start then: "
        "they need more units, would run into a reservation (a shorter LIMIT helps), or their SHARE rose"
    ),
    "ENDLESS": "not known: the job waits for jobs or Pods without a known end, or for too many jobs",
    "out_of_time": (
        "the computation ends after {:g} seconds: the times of jobs that would start later are not known"
    ),
    "computing": "computing when jobs start, for {:.0f} s at most",
    "NO_JOB_WAITS": "No job waits.",
    "UNKNOWN_NEXT": "which job is next is not known",
    "NONE_ADMITTED": "none can be admitted at present",
    "NEXT": "is next",
    "FIRST": "is first in the order",
    "HAS_RESERVATION": "has the reservation",
    "starts_ahead": "{} {}, ahead of {}",
    "first_job": "{} {} and {}",
    "starts_after": "{}; starts {}",
    "UNKNOWN_POSITION": "waits; its position in the queue is not known",
    "position": "waits in position {} of {}, and {}",
    "blocked": "is blocked: {}",
    "fits_units": "fits {}; see its Events if it still waits",
    "unknown_times": "{}; so positions and times are not known",
    "may_lose_units": "jobs of other namespaces may use the reserved units before {}",
    "program_stopped": "the placement program {}",
    "WAITS_FOR_NOTHING": "waits for nothing",
    "HAVE_NODES": "its workers have their nodes",
    "ended": "has ended: {}",
    "opted_out": ": namespace {} is opted out by label ultraserver-webhook.io/inject={}",
    "opt_in": (
        "kubectl label namespace {} ultraserver-webhook.io/inject-; delete the job and apply it again: "
        "an update adds nothing to it"
    ),
    "would_refuse": ", and the rule table would refuse the job: {}{}",
    "not_sent": ": no MutatingWebhookConfiguration sends {}s to it",
    "REGISTERED_LATER": ": it was registered after the job was created",
    "PODS_THEN_RECREATE": (
        "kubectl -n ultraserver-webhook get pods; then delete the job and apply it again: an update "
        "adds nothing to it"
    ),
    "REPAIR": (
        "repair the node, or apply the job again with annotation ultraserver-webhook.io/on-node-failure: move"
    ),
    "NO_LEASE": "does not run: it has no Lease, and pods with its gate wait",
    "LOGS": "kubectl -n ultraserver-webhook logs deployment/ultraserver-placement",
    "not_admitted": "does not admit the job: {}",
    "last_event": "its last Event: {}",
    "NO_REASON": "no reason given",
    "NO_KUEUE": "is named by the job, but Kueue is not installed in this cluster",
    "NO_WORKLOAD": "has no Workload for the job yet",
    "WAITS_FOR_CHECKS": "has reserved the job's quota, and waits for admission checks",
    "NOT_SEEN": "Kueue has not processed the job yet",
    "TOPOLOGY": "kubectl ultraserver topology: which jobs hold which UltraServer, and which nodes are broken",
    "suspended": "is suspended ({}), but not by a queue",
    "integrations": "check that Kueue runs and that its integrations include {}",
    "deactivated": "Workload {} is deactivated (spec.active)",
    "admission_check": "admission check {}: {}: {}",
    "waits_in_queue": "waits for {}: {}",
    "describe_queue": "kubectl -n {} describe localqueue {}",
    "NO_STATUS": "has not acted on the job: it has no status",
    "JOB_IS_NEW": "may not have read the new job yet",
    "NO_LAUNCHER": "the launcher is not created",
    "controller": "the controller of {}s",
    "find_operator": "kubectl get deployments -A: does {} run?",
    "describe_job": "kubectl -n {} describe {}; a quota may prevent the pods",
    "event_about": "{} {}: {}: {}",
    "init_container": "init container {} {}",
    "RUNNING": "is running",
    "container_logs": "kubectl -n {} logs {} -c {}",
    "NOTHING": "nothing",
    "FILE_OR_WEB": "name a file with --filename, or open the page with --web, but not both",
    "NO_OBJECTS": "the files contain no objects: name a file with a job",
    "only_dry_run": "note: only the dry run is done: {}",
    "table_revision": "the rule table, revision {}",
    "UNREADABLE_REGISTRATION": "you may not read its registration (mutatingwebhookconfigurations)",
    "NO_REGISTRATION": "no MutatingWebhookConfiguration has ultraserver-webhook in its name",
    "SET_KINDS": "add the kind to the chart's value kinds: see docs/kinds.md",
    "WAIT_FOR_TABLE": "wait two minutes if the table was just changed; or run kubectl ultraserver check",
    "OTHER_WRITER": "changed a field that the installation sets, or an admission policy did",
    "ANOTHER_NAME": "use another name, or see kubectl ultraserver why for the existing object",
    "BY_CONDITION": "a match condition excludes the object",
    "NO_ANSWER": "the webhook did not answer, and its failurePolicy is Ignore",
    "REPLICAS_HAVE_OTHER_TABLE": "its replicas have another table",
    "ASK_CHECK": "run kubectl ultraserver check: do the webhook's replicas answer, and with which table?",
    "tables_differ": "its replicas use table {}, and the preview service uses table {}",
    "excluded": "{} is excluded by the webhook's {}: label {}",
    "did_nothing": "did nothing, {}: {}",
    "is_not_called": "is not called, {}: {}",
    "no_rule": "no rule of its registration is for {}",
    "undone": "{} undid its changes",
    "unexpected_value": "{}: {}, not {}",
    "not_served": "it serves no {} of {}; is the CRD installed?",
    "would_wait": "would wait: {}",
    "fit_unknown": "is not known: {}",
    "no_template": "there is no ResourceClaimTemplate {} in namespace {}: create it",
    "NO_KUBECTL": "kubectl is not on the PATH, and calls to the API server go through it: install it",
    "NO_KUBECONFIG": "no kubeconfig names a cluster: set KUBECONFIG, or name a --kubeconfig or a --context",
    "unreachable": "cannot reach the API server: {}",
    "bad_kubeconfig": "cannot reach the API server: {}; see --kubeconfig and --context",
    "open_page": "Open {} in a browser; the address works once, and Ctrl-C ends the page.",
    "OTHER_HOST": "this host name is not allowed: use the address that the command prints",
    "NO_COOKIE": "open the address that kubectl ultraserver preview --web prints",
    "USED_ADDRESS": "this address works only once: run kubectl ultraserver preview --web again",
    "NO_PAGE": "there is no such page",
    "NO_LENGTH": "a body needs a Content-Length",
    "too_long": "a body has a length of at most {} bytes",
    "service_cannot_read": "the preview service cannot read the object: {}",
    "not_a_job": "{!r} is not a job: write NAME or KIND/NAME, for example train or mpijob/train",
    "no_job": "there is no job {} in namespace {}",
    "other_pods_unseen": "pods of other namespaces were not examined: {}",
    "claims_unseen": "claimed devices were not examined: {}",
    "lacks_right": (
        "cannot {0}: {1}; you need the right to {0}: "
        "docs/kubectl.md has a ClusterRole with all rights of the plugin"
    ),
    "UNMARKED": "no annotation ultraserver-webhook.io/place: the webhook did not change it",
    "not_whole": "not placed whole: {}",
    "node_outside": "node {}: in no working UltraServer, label {} is {}",
    "without_node": "{} of {} workers have no node: {}",
    "partial_block": "{0} has {1} of the job's workers, and node config {2} needs {2}: {3}",
    "by_policy": ", by the policy: {}",
    "TABLE_CHANGED": ": the rule table was changed after the job was created",
    "WOULD_CHANGE": ", and would now change the job",
    "foreign_gate": "{}: scheduling gate {}, which {} must remove",
    "job_stays_on_dead_nodes": "keeps the job on {}, and waits for the node",
    "launcher_without_node": "the launcher has no node: {}",
    "NOT_TRIED": "the scheduler has not tried to place it yet",
    "WHERE_WORKERS_ARE": "where its workers are",
    "would_admit": "would admit the job to {}",
    "will_admit": "is about to admit the job to {}",
    "could_admit": (
        "could admit the job to {}, but has not: it has stalled, or a job with a reservation comes first"
    ),
    "enough_nodes": "there are enough nodes and devices for the job: {}; its pods wait for another reason",
    "kueue_evicted": "evicted: {}: {}",
    "terminating": "terminating since {}, on node {}",
    "container_ended": "ended with exit code {}: {}: {}",
    "launcher_waits": "the launcher waits for its workers; not Ready: {}",
    "launcher_waits_for_ready": (
        "the launcher is created when all workers are Ready (launcherCreationPolicy); not Ready: {}"
    ),
    "contrary_to_table": "though the rule table would {} it",
    "service_refuses": "the preview service refuses ({}): {}",
    "ADD_HOST": "; an administrator can add the name of the API server to the chart's value previewHosts",
    "api_server_answers": "the API server answers {}: {}; {}",
    "PORT_FORWARD": (
        "try kubectl --namespace ultraserver-webhook port-forward "
        "service/ultraserver-webhook-preview 8080:http"
    ),
}
"""The constants of `messages`, and the templates of texts with values."""


@pytest.mark.parametrize(("result", "text"), TEXTS)
def test_a_function_returns_its_text(result: str, text: str) -> None:
    assert result == text


def test_every_function_has_a_case() -> None:
    """Protects against a new function whose text no test compares."""
    compared = set(re.findall(r"messages\.([a-z]\w*)\(", Path(__file__).read_text(encoding="utf-8")))
    assert texts.functions(messages) == compared


@pytest.mark.parametrize(
    ("part", "codes"),
    [
        ("verdicts", messages.ProblemCode),
        ("findings", messages.WhyCode),
        ("differences", messages.PreviewCode),
    ],
)
def test_the_reference_lists_exactly_the_codes_of_the_plugin(part: str, codes: object) -> None:
    """Protects users who look up a code in docs/reference.md."""
    assert list(meanings()[part]) == list(get_args(codes))


def test_the_constants_and_templates_have_their_texts() -> None:
    assert texts.constants(messages) == CONSTANTS


@pytest.mark.parametrize("placer", Placer)
def test_preview_with_fit_has_a_text_for_each_placer(placer: Placer) -> None:
    assert messages.fits(placer, ["us-1"], "").endswith(" us-1")
