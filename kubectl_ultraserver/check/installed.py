"""Checks an installation: pods, certificates, tables, registrations, placement and guard. Pure."""

import ssl
from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from common.texts import printable
from common.times import time_of
from contract.keys import ADDED, INJECT
from kube.api import Object
from kubectl_ultraserver.check.cluster import REQUIREMENTS
from kubectl_ultraserver.check.line import FAIL, PASS, WARN, Line, deployed_program
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.messages import join_names
from kubectl_ultraserver.objects import (
    NAME,
    at,
    condition,
    labels,
    maps_at,
    name_of,
    templates,
    text_at,
    unmet,
)
from kubectl_ultraserver.scheduling import why_stopped
from kubectl_ultraserver.why import explain_unchanged
from placement.observe.model import COMPONENT

PULL_ERRORS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
"""The kubelet's reasons for a container whose image cannot be pulled."""
MIN_DAYS: Final = 7
"""The minimum remaining days of a certificate, as in the alert. Renewal begins long before."""
POLICIES: Final = frozenset(f"{NAME}-guard-{part}" for part in ("jobs", "pods", "bindings"))
KINDS_POLICY: Final = f"{NAME}-guard-kinds"
"""The policy for the templates of the value ``kinds``."""
ACCOUNT_POLICIES: Final = frozenset({f"{NAME}-guard-pods", f"{COMPONENT}-account"})
"""The policies that limit what the account of whole-job admission may do to Pods."""
SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public", "kube-node-lease", NAME})
"""The namespaces that every installation excludes."""
LOGS: Final = f"kubectl -n {NAME} logs deployment/"
ReplicaAnswers = dict[str, "Object | str"]
"""For each serving pod, its answer at ``/readyz``, or why it does not answer."""


def pods(deployments: Sequence[Object], pods: Sequence[Object]) -> Iterator[Line]:
    """Yields a line for each image that cannot be pulled, and one for each Deployment."""
    names_by_image: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods:
        for container in maps_at(pod, "status", "containerStatuses"):
            if text_at(container, "state", "waiting", "reason") in PULL_ERRORS:
                names_by_image[text_at(container, "image")].append(name_of(pod))
    for image, names in names_by_image.items():
        registry = "" if "/" in image else ", which names no registry,"
        remedy = "push it to a registry that the nodes can pull from, and install with its name there"
        text = f"image {image}{registry} cannot be pulled: {join_names(names)}"
        yield Line(FAIL, text, remedy, "install.md#a-registry-of-your-own")
    if not any(name_of(raw) == NAME for raw in deployments):
        yield Line(FAIL, f"there is no Deployment {NAME}/{NAME}", "install it", "install.md#install")
    for raw in deployments:
        summary, why = deployed_program(raw), "; ".join(dict.fromkeys(_reasons(raw, pods)))
        status = PASS if summary.ready >= summary.wanted > 0 else WARN if summary.ready else FAIL
        text = (
            f"{name_of(raw)} has {summary.ready} of {summary.wanted} pods ready, with image {summary.image}"
        )
        remedy = f"kubectl -n {NAME} describe pods; {LOGS}{name_of(raw)}"
        text += f": {why}" if why and status is not PASS else ""
        yield Line(status, text, remedy, "operations.md#when-the-server-is-down")


def _reasons(deployment: Object, pods: Sequence[Object]) -> Iterator[str]:
    """Yields the messages of controller, scheduler and kubelets that say why a Deployment lacks pods."""
    yield from filter(None, [text_at(condition(deployment, "ReplicaFailure"), "message")])
    selector = at(deployment, "spec", "selector", "matchLabels") or {}
    for pod in (pod for pod in pods if selector.items() <= labels(pod).items()):
        waiting = (
            text_at(container, "state", "waiting", "reason")
            for container in maps_at(pod, "status", "containerStatuses")
        )
        yield from filter(None, [text_at(condition(pod, "PodScheduled"), "message"), *waiting])


def authorities(bundle: str) -> set[bytes]:
    """Returns the authorities of a caBundle, PEM in base64; an empty set if it cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=b64decode(bundle).decode("ascii"))
    except (ssl.SSLError, ValueError):
        return set()
    return set(context.get_ca_certs(binary_form=True))


def certificates(replicas: ReplicaAnswers, now: datetime) -> Iterator[Line]:
    """Yields how long the certificates of the replicas are valid. No certificate outlives its authority."""
    for pod, answer in replicas.items():
        if end := time_of(at(answer, "certificate")):
            days = (end - now).days
            validity = f"is valid for {days} days" if end > now else f"ended on {end:%Y-%m-%d}"
            status = FAIL if end <= now else WARN if days < MIN_DAYS else PASS
            text = f"the certificate of {pod} {validity}"
            yield Line(status, text, f"{LOGS}{NAME}-certs", "operations.md#the-certificate")


def previews(state: Object, problem: str, own_release: str) -> Iterator[Line]:
    """Yields whether the preview service answers, and has the release of the plugin."""
    release = text_at(state, "version")
    text = problem or f"the installation is {release or 'older than 0.3'}, this plugin is {own_release}"
    remedy = "jobs are placed without it; preview, why and check show less" if problem else "use one release"
    yield Line(PASS if release == own_release else WARN, text, remedy, "preview.md#in-a-cluster")


def tables(replicas: ReplicaAnswers, revision: str, problem: str) -> Iterator[Line]:
    """Yields the table's problem, if it has one, and whether all replicas use the preview service's table."""
    link = "operations.md#the-rule-table"
    if problem:
        yield Line(FAIL, f"the ConfigMap {NAME}-rules: {problem}", "correct or restore it", link)
    if not replicas:
        yield Line(FAIL, "no replica runs", f"kubectl -n {NAME} get pods", link)
    for pod, answer in replicas.items():
        if isinstance(answer, str):
            remedy = "let API servers reach port 8443 of pods: a security group, perhaps"
            yield Line(FAIL, f"{pod} did not answer: {printable(answer, 200)}", remedy, REQUIREMENTS)
        elif answer.get("problem"):
            yield Line(FAIL, f"{pod}: {printable(text_at(answer, 'problem'), 200)}", f"{LOGS}{NAME}", link)
        else:
            table = answer.get("table")
            difference = f"; the preview service uses {revision}" if revision else ""
            text = f"{pod} uses table {table}{difference}"
            remedy = "a change reaches the pods within two minutes: check again"
            yield Line(PASS if revision in ("", table) else WARN, text, remedy, link)


def bundles(registrations: Mapping[str, Object | None], served: set[bytes] | None) -> Iterator[Line]:
    """Yields whether the registrations exist, and trust ``served``, which is None if it cannot be read."""
    for kind, registration in registrations.items():
        wrong = list[str]()
        for hook in maps_at(registration, "webhooks"):
            trusted = authorities(text_at(hook, "clientConfig", "caBundle"))
            wrong += [] if trusted and (served is None or trusted & served) else [text_at(hook, "name")]
        if registration is None:
            remedy = "install it; until then no job is sent to the webhook"
            yield Line(FAIL, f"there is no {kind} {NAME}", remedy, "operations.md#restore")
        else:
            problem = (
                f"the caBundle does not match the served certificate, so calls fail: {join_names(wrong)}"
            )
            text = f"{kind}: {problem if wrong else 'is trusted'}"
            link = "certificates.md#when-something-is-wrong"
            yield Line(FAIL if wrong else PASS, text, f"{LOGS}{NAME}-certs", link)


def left_out(
    registration: Object | None, kinds: Collection[str], namespaces: Sequence[Object]
) -> Iterator[Line]:
    """Yields which of the kinds, as ``GROUP/VERSION/RESOURCE``, and which namespaces are not sent."""
    hooks = [
        (hook, {kind for rule in maps_at(hook, "rules") for kind in _kinds(rule)})
        for hook in maps_at(registration, "webhooks")
    ]
    sent_kinds = {kind for _, resources in hooks for kind in resources} & set(kinds)
    other_kinds = sorted(set(kinds) - sent_kinds)
    text = f"sent: {', '.join(sorted(sent_kinds)) or 'nothing'}; not sent: {', '.join(other_kinds) or 'none'}"
    status = WARN if any(not kind.startswith("batch/") for kind in other_kinds) else PASS
    yield Line(status, text, "set the value kinds, to place such jobs", "kinds.md")
    user_namespaces = [namespace for namespace in namespaces if name_of(namespace) not in SYSTEM_NAMESPACES]
    # Pods of changed jobs are sent from all namespaces.
    selectors = [hook.get("namespaceSelector") for hook, resources in hooks if resources != {"/v1/pods"}]
    excluded = [
        name_of(namespace)
        for namespace in user_namespaces
        if all(unmet(selector, labels(namespace)) for selector in selectors)
    ]
    text = f"namespaces left out: {join_names(excluded) or 'none'}"
    remedy = f"kubectl label namespace NAME {INJECT}=enabled"
    status = WARN if user_namespaces and len(excluded) == len(user_namespaces) else PASS
    yield Line(status, text, remedy, "mixed-fleets.md#only-those-that-ask")


def _kinds(rule: Object) -> Iterator[str]:
    pairs = (f"{group}/{version}" for group in rule["apiGroups"] for version in rule["apiVersions"])
    return (f"{pair}/{name}" for pair in pairs for name in rule["resources"])


def job(stored: Object, refusal: str, case: Case, *, expected: bool) -> Iterator[Line]:
    """Yields the result of a job's dry run; ``expected`` is whether the rule table changes the job."""
    subject, link = f"an MPIJob in namespace {case.namespace}", "install.md#check-that-it-is-called"
    if refusal:
        yield Line(FAIL, f"{subject} is refused: {printable(refusal, 300)}", f"{LOGS}{NAME}", link)
    elif any(ADDED in labels(template, "annotations") for template in templates(stored)):
        yield Line(PASS, f"{subject} is changed in a dry run")
    else:
        for finding in explain_unchanged(case):
            text = f"{subject} is not changed in a dry run: the webhook {finding.text}"
            yield Line(
                FAIL if expected else WARN, text, f"{LOGS}{NAME}" if expected else finding.remedy, link
            )


def placement(lease: Object | None, now: datetime, *, is_used: bool, has_kueue: bool) -> Iterator[Line]:
    """Yields whether the placement program runs, if the rule table uses it (``is_used``)."""
    if is_used:
        problem, leader = why_stopped(lease, now), text_at(lease, "spec", "holderIdentity")
        text = f"jobs wait for {COMPONENT}, which {problem}" if problem else f"{leader} leads"
        remedy = f"kubectl -n {NAME} get pods; {LOGS}{COMPONENT}"
        yield Line(FAIL if problem else PASS, text, remedy, "placement.md#placement-stalled")
    else:
        text = "whole-job admission is not in the rule table" + ("; Kueue is installed" if has_kueue else "")
        remedy = "install it: of two jobs at a time, each may get only a part of the nodes that it needs"
        yield Line(PASS if has_kueue else WARN, text, remedy, "placement.md")


def queues(*, is_used: bool, has_kueue: bool) -> Iterator[Line]:
    """Yields a problem if only one of two facts holds: the rule table uses Kueue, and Kueue is installed."""
    if is_used != has_kueue:
        text = (
            "a job that names a queue skips whole-job admission, and Kueue is not installed"
            if is_used
            else "Kueue is installed, but the rule table does not let jobs wait for it"
        )
        remedy = f"set the value kueue: {str(has_kueue).lower()}"
        yield Line(FAIL if is_used else WARN, text, remedy, "kueue.md#set-it-up")


def levels(used: Collection[str], found: Collection[str]) -> Iterator[Line]:
    """Yields whether a Topology of Kueue has each level that the rule table uses."""
    for level in sorted(used):
        problem = (
            f"no Topology has it, only {join_names(sorted(found)) or 'none'}: such jobs are never admitted"
        )
        text = (
            f"the rule table uses Kueue's level {level}; {'a Topology has it' if level in found else problem}"
        )
        remedy = "add it to the Topology, or set the value kueueLevel to the level of an UltraServer"
        yield Line(PASS if level in found else WARN, text, remedy, "kueue.md#levels")


def guard(
    policies: Sequence[Object], bindings: Sequence[Object], accounts: Mapping[str, bool], *, placement: bool
) -> Iterator[Line]:
    """Yields whether the guard's policies are enforced, and whether they permit the accounts of operators.

    With ``placement``, also yields a line if no policy limits the account of whole-job admission.
    """
    does = {name_of(policy): set[str]() for policy in policies}
    for binding in (hook for hook in bindings if text_at(hook, "spec", "policyName") in does):
        does[binding["spec"]["policyName"]] |= {*binding["spec"]["validationActions"]}
    if placement and not any("Deny" in does.get(name, ()) for name in ACCOUNT_POLICIES):
        text = f"no policy limits what the account of {COMPONENT} may do to Pods"
        yield Line(FAIL, text, "install the chart, or apply the manifests, again", "install.md#the-guard")
    guard_policies = {name for name in does if name.startswith(f"{NAME}-guard-")}
    broken = sorted({*(POLICIES - guard_policies), *(name for name in guard_policies if not does[name])})
    weak = sorted(name for name in guard_policies if does[name] and "Deny" not in does[name])
    if not guard_policies:
        remedy = "install it, unless all holders trust each other"
        yield Line(WARN, "there is no guard", remedy, "install.md#the-guard")
        return
    text = f"these warn only: {join_names(weak)}" if weak else f"{len(guard_policies)} policies are enforced"
    text = f"missing, or without a binding: {join_names(broken)}" if broken else text
    remedy = "install the chart again" if broken else "set the value guard to enforce"
    yield Line(FAIL if broken else WARN if weak else PASS, text, remedy, "install.md#the-guard")
    if older := sorted(guard_policies - POLICIES - {KINDS_POLICY}):
        text = f"policies of an older release, to be deleted with their bindings: {join_names(older)}"
        remedy = (
            f"kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy {' '.join(older)}"
        )
        yield Line(FAIL, text, remedy, "install.md#upgrade")
    for account in sorted(account for account, is_bound in accounts.items() if not is_bound):
        remedy, link = f"bind it to the ClusterRole {NAME}-operator", "install.md#bind-another-operator"
        yield Line(FAIL, f"the guard refuses the pods of {account}", remedy, link)
