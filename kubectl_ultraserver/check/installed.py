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
from kubectl_ultraserver.check.cluster import NEEDS
from kubectl_ultraserver.check.line import FAIL, PASS, WARN, Line, program
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

UNPULLED: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
"""The kubelet's reasons for a container whose image cannot be pulled."""
DAYS: Final = 7
"""Minimum remaining days of a certificate, as in the alert; certificates are renewed long before."""
POLICIES: Final = frozenset(f"{NAME}-guard-{part}" for part in ("jobs", "pods", "bindings"))
KINDS: Final = f"{NAME}-guard-kinds"
"""The policy for the templates of the value ``kinds``."""
BOUND: Final = frozenset({f"{NAME}-guard-pods", f"{COMPONENT}-account"})
"""One of these policies limits what the account of whole-job admission may do to Pods."""
SYSTEM: Final = frozenset({"kube-system", "kube-public", "kube-node-lease", NAME})
"""Namespaces that every installation excludes."""
LOGS: Final = f"kubectl -n {NAME} logs deployment/"
Replicas = dict[str, "Object | str"]
"""For each serving pod, the answer of ``/readyz``, or why there is none."""


def pods(deployments: Sequence[Object], pods_: Sequence[Object]) -> Iterator[Line]:
    """Yields a line for each image that cannot be pulled, and one for each Deployment."""
    unpulled: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods_:
        for one in maps_at(pod, "status", "containerStatuses"):
            if text_at(one, "state", "waiting", "reason") in UNPULLED:
                unpulled[text_at(one, "image")].append(name_of(pod))
    for image, names in unpulled.items():
        registry = "" if "/" in image else ", which names no registry,"
        remedy = "push it to a registry that the nodes can pull from, and install with its name there"
        text_ = f"image {image}{registry} cannot be pulled: {join_names(names)}"
        yield Line(FAIL, text_, remedy, "install.md#a-registry-of-your-own")
    if not any(name_of(raw) == NAME for raw in deployments):
        yield Line(FAIL, f"there is no Deployment {NAME}/{NAME}", "install it", "install.md#install")
    for raw in deployments:
        each, why = program(raw), "; ".join(dict.fromkeys(_reasons(raw, pods_)))
        status = PASS if each.ready >= each.wanted > 0 else WARN if each.ready else FAIL
        text_ = f"{name_of(raw)} has {each.ready} of {each.wanted} pods ready, with image {each.image}"
        remedy = f"kubectl -n {NAME} describe pods; {LOGS}{name_of(raw)}"
        text_ += f": {why}" if why and status is not PASS else ""
        yield Line(status, text_, remedy, "operations.md#when-the-server-is-down")


def _reasons(deployment: Object, pods_: Sequence[Object]) -> Iterator[str]:
    """Yields why a Deployment lacks pods, in the messages of controller, scheduler and kubelets."""
    yield from filter(None, [text_at(condition(deployment, "ReplicaFailure"), "message")])
    selector = at(deployment, "spec", "selector", "matchLabels") or {}
    for pod in (pod for pod in pods_ if selector.items() <= labels(pod).items()):
        waiting = (
            text_at(one, "state", "waiting", "reason") for one in maps_at(pod, "status", "containerStatuses")
        )
        yield from filter(None, [text_at(condition(pod, "PodScheduled"), "message"), *waiting])


def authorities(bundle: str) -> set[bytes]:
    """Returns the authorities of a caBundle, PEM in base64; none if it has none or cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=b64decode(bundle).decode("ascii"))
    except (ssl.SSLError, ValueError):
        return set()
    return set(context.get_ca_certs(binary_form=True))


def certificates(replicas: Replicas, now: datetime) -> Iterator[Line]:
    """Yields how long the certificates of replicas are valid; none outlives its authority."""
    for pod, answer in replicas.items():
        if end := time_of(at(answer, "certificate")):
            days = (end - now).days
            valid = f"is valid for {days} days" if end > now else f"ended on {end:%Y-%m-%d}"
            status = FAIL if end <= now else WARN if days < DAYS else PASS
            text_ = f"the certificate of {pod} {valid}"
            yield Line(status, text_, f"{LOGS}{NAME}-certs", "operations.md#the-certificate")


def previews(state: Object, off: str, own: str) -> Iterator[Line]:
    """Yields whether the preview service answers, and has the plugin's ``own`` release."""
    there = text_at(state, "version")
    text_ = off or f"the installation is {there or 'older than 0.3'}, this plugin is {own}"
    remedy = "jobs are placed without it; preview, why and check show less" if off else "use one release"
    yield Line(PASS if there == own else WARN, text_, remedy, "preview.md#in-a-cluster")


def tables(replicas: Replicas, revision: str, problem: str) -> Iterator[Line]:
    """Yields whether all replicas use the preview service's table; ``problem`` is what is wrong with it."""
    link = "operations.md#the-rule-table"
    if problem:
        yield Line(FAIL, f"the ConfigMap {NAME}-rules: {problem}", "correct or restore it", link)
    if not replicas:
        yield Line(FAIL, "no replica runs", f"kubectl -n {NAME} get pods", link)
    for pod, answer in replicas.items():
        if isinstance(answer, str):
            remedy = "let API servers reach port 8443 of pods: a security group, perhaps"
            yield Line(FAIL, f"{pod} did not answer: {printable(answer, 200)}", remedy, NEEDS)
        elif answer.get("problem"):
            yield Line(FAIL, f"{pod}: {printable(text_at(answer, 'problem'), 200)}", f"{LOGS}{NAME}", link)
        else:
            table = answer.get("table")
            other = f"; the preview service uses {revision}" if revision else ""
            text_ = f"{pod} uses table {table}{other}"
            remedy = "a change reaches the pods within two minutes: check again"
            yield Line(PASS if revision in ("", table) else WARN, text_, remedy, link)


def bundles(registrations: Mapping[str, Object | None], served: set[bytes] | None) -> Iterator[Line]:
    """Yields whether the registrations exist, and trust the served authority if the user may read it."""
    for kind, registration in registrations.items():
        bad = list[str]()
        for hook in maps_at(registration, "webhooks"):
            has = authorities(text_at(hook, "clientConfig", "caBundle"))
            bad += [] if has and (served is None or has & served) else [text_at(hook, "name")]
        if registration is None:
            remedy = "install it; until then no job is sent to the webhook"
            yield Line(FAIL, f"there is no {kind} {NAME}", remedy, "operations.md#restore")
        else:
            wrong = f"calls fail, as the caBundle does not match the served certificate: {join_names(bad)}"
            text_ = f"{kind}: {wrong if bad else 'is trusted'}"
            link = "certificates.md#when-something-is-wrong"
            yield Line(FAIL if bad else PASS, text_, f"{LOGS}{NAME}-certs", link)


def left_out(registration: Object | None, kinds: Collection[str], spaces: Sequence[Object]) -> Iterator[Line]:
    """Yields which kinds of job, ``GROUP/VERSION/RESOURCE``, and namespaces are not sent to the webhook."""
    hooks = [
        (hook, {kind for rule in maps_at(hook, "rules") for kind in _kinds(rule)})
        for hook in maps_at(registration, "webhooks")
    ]
    sent = {kind for _, resources in hooks for kind in resources} & set(kinds)
    lacking = sorted(set(kinds) - sent)
    text_ = f"sent: {', '.join(sorted(sent)) or 'nothing'}; not sent: {', '.join(lacking) or 'none'}"
    status = WARN if any(not kind.startswith("batch/") for kind in lacking) else PASS
    yield Line(status, text_, "set the value kinds, to place such jobs", "kinds.md")
    users = [namespace for namespace in spaces if name_of(namespace) not in SYSTEM]
    # Pods of changed jobs are sent from all namespaces.
    selectors = [hook.get("namespaceSelector") for hook, resources in hooks if resources != {"/v1/pods"}]
    out = [
        name_of(namespace)
        for namespace in users
        if all(unmet(selector, labels(namespace)) for selector in selectors)
    ]
    text_ = f"namespaces left out: {join_names(out) or 'none'}"
    remedy = f"kubectl label namespace NAME {INJECT}=enabled"
    status = WARN if users and len(out) == len(users) else PASS
    yield Line(status, text_, remedy, "mixed-fleets.md#only-those-that-ask")


def _kinds(rule: Object) -> Iterator[str]:
    pairs = (f"{group}/{version}" for group in rule["apiGroups"] for version in rule["apiVersions"])
    return (f"{pair}/{name}" for pair in pairs for name in rule["resources"])


def job(stored: Object, refused: str, case: Case, *, wanted: bool) -> Iterator[Line]:
    """Yields the result of a job's dry run; ``wanted``: whether the rule table would change the job."""
    where, link = f"an MPIJob in namespace {case.namespace}", "install.md#check-that-it-is-called"
    if refused:
        yield Line(FAIL, f"{where} is refused: {printable(refused, 300)}", f"{LOGS}{NAME}", link)
    elif any(ADDED in labels(template, "annotations") for template in templates(stored)):
        yield Line(PASS, f"{where} is changed in a dry run")
    else:
        for finding in explain_unchanged(case):
            text_ = f"{where} is not changed in a dry run: the webhook {finding.text}"
            yield Line(FAIL if wanted else WARN, text_, f"{LOGS}{NAME}" if wanted else finding.remedy, link)


def placement(lease: Object | None, now: datetime, *, gates: bool, kueue: bool) -> Iterator[Line]:
    """Yields whether the placement program runs, if the rule table makes jobs wait for it (``gates``)."""
    if gates:
        why, leader = why_stopped(lease, now), text_at(lease, "spec", "holderIdentity")
        text_ = f"jobs wait for {COMPONENT}, which {why}" if why else f"{leader} leads"
        remedy = f"kubectl -n {NAME} get pods; {LOGS}{COMPONENT}"
        yield Line(FAIL if why else PASS, text_, remedy, "placement.md#placement-stalled")
    else:
        text_ = "whole-job admission is not in the rule table" + ("; Kueue is installed" if kueue else "")
        remedy = "install it, unless one team runs one job at a time: two at once may both get only a part"
        yield Line(PASS if kueue else WARN, text_, remedy, "placement.md")


def queues(*, counts: bool, kueue: bool) -> Iterator[Line]:
    """Yields a problem if queue labels have an effect (``counts``) without Kueue, or the reverse."""
    if counts != kueue:
        text_ = (
            "a job that names a queue skips whole-job admission, and Kueue is not installed"
            if counts
            else "Kueue is installed, but the rule table does not let jobs wait for it"
        )
        remedy = f"set the value kueue: {str(kueue).lower()}"
        yield Line(FAIL if counts else WARN, text_, remedy, "kueue.md#set-it-up")


def levels(wanted: Collection[str], has: Collection[str]) -> Iterator[Line]:
    """Yields whether a Topology of Kueue has each level that the rule table uses."""
    for level in sorted(wanted):
        lacks = f"no Topology has it, but {join_names(sorted(has)) or 'none'}: such jobs are never admitted"
        text_ = f"the rule table uses Kueue's level {level}; {'a Topology has it' if level in has else lacks}"
        remedy = "add it to the Topology, or set the value kueueLevel to the level of an UltraServer"
        yield Line(PASS if level in has else WARN, text_, remedy, "kueue.md#levels")


def guard(
    policies: Sequence[Object], bindings: Sequence[Object], accounts: Mapping[str, bool], *, placement: bool
) -> Iterator[Line]:
    """Yields whether the guard's policies are enforced, and one limits the account of ``placement``, if used.

    Also whether the guard permits each account of an operator.
    """
    does = {name_of(policy): set[str]() for policy in policies}
    for binding in (each for each in bindings if text_at(each, "spec", "policyName") in does):
        does[binding["spec"]["policyName"]] |= {*binding["spec"]["validationActions"]}
    if placement and not any("Deny" in does.get(name, ()) for name in BOUND):
        text_ = f"no policy limits what the account of {COMPONENT} may do to Pods"
        yield Line(FAIL, text_, "install the chart, or apply the manifests, again", "install.md#the-guard")
    there = {name for name in does if name.startswith(f"{NAME}-guard-")}
    broken = sorted({*(POLICIES - there), *(name for name in there if not does[name])})
    weak = sorted(name for name in there if does[name] and "Deny" not in does[name])
    if not there:
        remedy = "install it, unless all holders trust each other"
        yield Line(WARN, "there is no guard", remedy, "install.md#the-guard")
        return
    text_ = f"these warn only: {join_names(weak)}" if weak else f"{len(there)} policies are enforced"
    text_ = f"missing, or without a binding: {join_names(broken)}" if broken else text_
    remedy = "install the chart again" if broken else "set the value guard to enforce"
    yield Line(FAIL if broken else WARN if weak else PASS, text_, remedy, "install.md#the-guard")
    if older := sorted(there - POLICIES - {KINDS}):
        text_ = f"of an older release, and to be deleted with its binding: {join_names(older)}"
        remedy = (
            f"kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy {' '.join(older)}"
        )
        yield Line(FAIL, text_, remedy, "install.md#upgrade")
    for account in sorted(account for account, known in accounts.items() if not known):
        remedy, link = f"bind it to the ClusterRole {NAME}-operator", "install.md#bind-another-operator"
        yield Line(FAIL, f"the guard refuses the pods of {account}", remedy, link)
