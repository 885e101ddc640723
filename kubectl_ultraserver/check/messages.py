"""The texts of the results of ``check``. docs/reference.md lists the codes."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from contract.keys import INJECT
from kubectl_ultraserver.check.line import PASS, Line, Status
from kubectl_ultraserver.messages import GET_PODS, LOGS
from kubectl_ultraserver.objects import NAME
from placement.observe.model import COMPONENT


class Result(NamedTuple):
    """The texts of a code, as templates for `str.format`."""

    text: str  # the result of the check
    remedy: str = ""  # what to do if the status is not ``pass``; empty if the status is always ``pass``
    page: str = ""  # the page in docs/ that explains the remedy
    passed: str = ""  # the text if the status is ``pass``; empty if this text is the same as ``text``


NO_CONFIGMAP: Final = "it does not exist"
NO_READYZ: Final = "it has no /readyz"
NO_TAG: Final = "without a tag"
CLUSTER_LEVEL: Final = "cluster default"
NO_REGISTRY: Final = ", which names no registry,"
OLD_RELEASE: Final = "older than 0.3"
other_table: Final = "; the preview service uses {}".format
WEBHOOK_LOGS: Final = f"kubectl -n {NAME} logs deployment/{NAME}"
_CERTS_LOG: Final = f"{WEBHOOK_LOGS}-certs"
_VERSION: Final = "Kubernetes {version}; {oldest} to {newest} were tested"
_RUNS: Final = "{name} {version} is {deployment}, with {ready} of {wanted} pods ready"
_DESCRIBE: Final = "kubectl -n {namespace} describe pods; until a pod is ready,"
_INSTALL: Final = "install it, except if it runs with another image or outside the cluster"
_DRIVER: Final = "check that a device plugin or DRA driver with support for UltraServers runs on these nodes"
_NAMESPACE: Final = f"namespace {NAME}, PodSecurity {{level}},"
_LEVEL: Final = "the rule table uses Kueue's level {level};"
_BIND, _CALLED = "install.md#bind-another-operator", "install.md#check-that-it-is-called"
_GUARD, _REQUIREMENTS = "install.md#the-guard", "install.md#requirements"
_KUEUE, _TABLE = "kueue.md#set-it-up", "operations.md#the-rule-table"
_CERTIFICATE, _PREVIEW = "operations.md#the-certificate", "preview.md#in-a-cluster"

RESULTS: Final[Mapping[str, Result]] = {
    # The cluster
    "kubernetes": Result(_VERSION, "try the webhook on a test cluster first", _REQUIREMENTS),
    "old-kubernetes": Result(_VERSION, "upgrade: 1.29 has no v1 admission policies", _REQUIREMENTS),
    "nodes": Result("{all} nodes of {units} UltraServers"),
    "no-ultraservers": Result(
        "there is no UltraServer node", "add nodes of {types}; until then jobs wait", _REQUIREMENTS
    ),
    "nodes-without-unit": Result(
        "{some} of {all} UltraServer nodes have no label of a working UltraServer, such as {label}: {names}",
        _DRIVER,
        "claims.md",
    ),
    "nodes-without-devices": Result(
        "{some} of {all} UltraServer nodes have no devices: {names}", _DRIVER, "claims.md"
    ),
    "guarantees": Result(
        "teams are guaranteed {promised} units of {label}, but the cluster has {existing}",
        "guarantee fewer units, or add nodes",
        "placement.md#guarantees",
    ),
    "no-mpijobs": Result(
        "the API server has no {kind}", "install mpi-operator to run MPIJobs", _REQUIREMENTS
    ),
    "operator": Result(_RUNS, f"{_DESCRIBE} no pods of {{kind}} are created", "kinds.md"),
    "operator-not-found": Result(
        "no Deployment has an image {name}, so no pods of {kind} are created", _INSTALL, "kinds.md"
    ),
    "kueue": Result(_RUNS, f"{_DESCRIBE} no queued job is admitted", _KUEUE),
    "kueue-not-found": Result(
        "no Deployment has an image {name}, so no queued job is admitted", _INSTALL, _KUEUE
    ),
    "old-kueue": Result(
        "Kueue {version} was not tested; the oldest tested Kueue is 0.15", "upgrade it", _KUEUE
    ),
    # Before an installation
    "rights": Result(
        "you may not create {resources}",
        "install as an administrator of the cluster",
        _REQUIREMENTS,
        passed="you may create all objects of an installation",
    ),
    "no-namespace": Result(f"namespace {NAME} is created by the installation"),
    "namespace": Result(
        f"{_NAMESPACE} refuses a pod like the webhook's: {{why}}",
        "change the quota, limit or policy",
        _REQUIREMENTS,
        passed=f"{_NAMESPACE} accepts pods like the webhook's",
    ),
    "namespace-terminating": Result(
        f"{_NAMESPACE} is being deleted", "wait until it is deleted", _REQUIREMENTS
    ),
    "account": Result(
        "the guard will refuse the pods of {account}",
        f"before you install, bind it to the ClusterRole {NAME}-operator",
        _BIND,
        passed="the guard will accept the pods of {account}",
    ),
    # An installation
    "image": Result(
        "image {image}{note} cannot be pulled: {names}",
        "push it to a registry that the nodes can pull from, and install with its name in that registry",
        "install.md#a-registry-of-your-own",
    ),
    "deployment": Result(
        "{name} has {ready} of {wanted} pods ready, with image {image}{why}",
        f"kubectl -n {NAME} describe pods; kubectl -n {NAME} logs deployment/{{name}}",
        "operations.md#when-the-webhook-is-down",
    ),
    "no-deployment": Result(f"there is no Deployment {NAME}/{NAME}", "install it", "install.md#install"),
    "certificate": Result("the certificate of {pod} is valid for {days} days", _CERTS_LOG, _CERTIFICATE),
    "certificate-ended": Result("the certificate of {pod} ended on {end:%Y-%m-%d}", _CERTS_LOG, _CERTIFICATE),
    "release": Result(
        "the installation is {release}, this plugin is {own}", "use the same release of both", _PREVIEW
    ),
    "no-preview-service": Result(
        "{why}", "jobs are placed without it; preview, why and check show less", _PREVIEW
    ),
    "rule-table": Result(f"the ConfigMap {NAME}-rules: {{why}}", "correct or restore it", _TABLE),
    "no-replica": Result("no replica runs", GET_PODS, _TABLE),
    "replica-without-answer": Result(
        "{pod} did not answer: {why}",
        "let API servers reach port 8443 of the pods, for example in a security group",
        _REQUIREMENTS,
    ),
    "replica-problem": Result("{pod}: {why}", WEBHOOK_LOGS, _TABLE),
    "replica-table": Result(
        "{pod} uses table {table}{other}", "a change reaches the pods within two minutes: check again", _TABLE
    ),
    "no-registration": Result(
        f"there is no {{kind}} {NAME}",
        "install it; until then no job is sent to the webhook",
        "operations.md#restore",
    ),
    "ca-bundle": Result(
        "{kind}: the caBundle does not match the served certificate, so calls fail: {names}",
        _CERTS_LOG,
        "certificates.md#when-something-is-wrong",
        passed="{kind}: the caBundle is valid",
    ),
    "kinds-sent": Result(
        "kinds sent to the webhook: {sent}; not sent: {others}",
        "to place jobs of the other kinds, set the value kinds",
        "kinds.md",
    ),
    "namespaces-left-out": Result(
        "namespaces whose jobs are not sent to the webhook: {names}",
        f"kubectl label namespace NAME {INJECT}=enabled",
        "mixed-fleets.md#only-jobs-that-opt-in",
    ),
    "job-changed": Result("an MPIJob in namespace {namespace} is changed in a dry run"),
    "job-unchanged": Result(
        "an MPIJob in namespace {namespace} is not changed in a dry run: the webhook {why}",
        "{remedy}",
        _CALLED,
    ),
    "job-refused": Result("an MPIJob in namespace {namespace} is refused: {why}", WEBHOOK_LOGS, _CALLED),
    "placement": Result(
        f"jobs wait for {COMPONENT}, which {{why}}",
        f"{GET_PODS}; {LOGS}",
        "placement.md#placement-stalled",
        passed="{leader} leads",
    ),
    "no-placement": Result(
        "whole-job admission is not in the rule table",
        "install it: without it, waiting jobs may each get only a part of the nodes that they need",
        "placement.md",
        passed="whole-job admission is not in the rule table; Kueue is installed",
    ),
    "queues-without-kueue": Result(
        "a job that names a queue skips whole-job admission, and Kueue is not installed",
        "set the value kueue: false",
        _KUEUE,
    ),
    "kueue-unused": Result(
        "Kueue is installed, but the rule table does not let jobs wait for it",
        "set the value kueue: true",
        _KUEUE,
    ),
    "kueue-level": Result(
        f"{_LEVEL} no Topology has it, only {{names}}: jobs that need it never start",
        "add it to the Topology, or set the value kueueLevel to the level of an UltraServer",
        "kueue.md#levels",
        passed=f"{_LEVEL} a Topology has it",
    ),
    "guard": Result(
        "these policies only warn: {names}",
        "set the value guard to enforce",
        _GUARD,
        passed="{count} policies are enforced",
    ),
    "guard-incomplete": Result("missing, or without a binding: {names}", "install the chart again", _GUARD),
    "guard-outdated": Result(
        "policies of an older release, to be deleted with their bindings: {names}",
        "kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy {policies}",
        "install.md#upgrade",
    ),
    "no-guard": Result(
        "there is no guard", "install it, unless all users of the cluster trust each other", _GUARD
    ),
    "placement-account": Result(
        f"no policy limits what the account of {COMPONENT} may do to Pods",
        "install the chart, or apply the manifests, again",
        _GUARD,
    ),
    "account-refused": Result(
        "the guard refuses the pods of {account}", f"bind it to the ClusterRole {NAME}-operator", _BIND
    ),
    # Any check
    "not-checked": Result("not checked: {why}", "check as an administrator", "kubectl.md#check"),
    "not-read": Result("{why}", "does the API server answer?", "kubectl.md#check"),
}
"""The texts of each code."""


def line(status: Status, code: str, **facts: object) -> Line:
    """Returns a result with the texts of its code, formatted with the facts."""
    result = RESULTS[code]
    if status is PASS:
        return Line(status, code, (result.passed or result.text).format(**facts))
    text, remedy = result.text.format(**facts), result.remedy.format(**facts)
    return Line(status, code, text, remedy, f"docs/{result.page}")
