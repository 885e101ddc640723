"""Checks an installation: pods, certificates, tables, registrations, placement and guard. Pure."""

import ssl
from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from common.texts import join_names, printable
from common.times import time_of
from contract.keys import ADDED
from kube.api import Object
from kubectl_ultraserver.check.line import FAIL, PASS, WARN, Line, deployed_program
from kubectl_ultraserver.check.messages import NO_REGISTRY, OLD_RELEASE, WEBHOOK_LOGS, line, other_table
from kubectl_ultraserver.findings import Case
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
"""The minimum remaining days of a certificate, as in the chart's alert. Renewal begins much earlier."""
POLICIES: Final = frozenset(f"{NAME}-guard-{part}" for part in ("jobs", "pods", "bindings"))
KINDS_POLICY: Final = f"{NAME}-guard-kinds"
"""The policy for the pod templates of the kinds in the chart's value ``kinds``."""
ACCOUNT_POLICIES: Final = frozenset({f"{NAME}-guard-pods", f"{COMPONENT}-account"})
"""The policies that limit what the account of whole-job admission may do to Pods."""
SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public", "kube-node-lease", NAME})
"""The namespaces that every installation excludes."""
ReadyzAnswers = dict[str, "Object | str"]
"""For each serving pod, its answer at ``/readyz``, or the reason why it does not answer."""


def pods(deployments: Sequence[Object], pods: Sequence[Object]) -> Iterator[Line]:
    """Yields a line for each image that cannot be pulled, and a line for each Deployment."""
    names_by_image: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods:
        for container in maps_at(pod, "status", "containerStatuses"):
            if text_at(container, "state", "waiting", "reason") in PULL_ERRORS:
                names_by_image[text_at(container, "image")].append(name_of(pod))
    for image, names in names_by_image.items():
        note = "" if "/" in image else NO_REGISTRY
        yield line(FAIL, "image", image=image, note=note, names=join_names(names))
    if not any(name_of(raw) == NAME for raw in deployments):
        yield line(FAIL, "no-deployment")
    for raw in deployments:
        program, why = deployed_program(raw), "; ".join(dict.fromkeys(_reasons(raw, pods)))
        status = PASS if program.ready >= program.wanted > 0 else WARN if program.ready else FAIL
        why = f": {why}" if why and status is not PASS else ""
        yield line(status, "deployment", **program._asdict() | {"name": name_of(raw), "why": why})


def _reasons(deployment: Object, pods: Sequence[Object]) -> Iterator[str]:
    """Yields why a Deployment lacks ready pods, as its controller, the scheduler and kubelets report it."""
    yield from filter(None, [text_at(condition(deployment, "ReplicaFailure"), "message")])
    selector = at(deployment, "spec", "selector", "matchLabels") or {}
    for pod in (pod for pod in pods if selector.items() <= labels(pod).items()):
        statuses = maps_at(pod, "status", "containerStatuses")
        waiting = (text_at(status, "state", "waiting", "reason") for status in statuses)
        yield from filter(None, [text_at(condition(pod, "PodScheduled"), "message"), *waiting])


def authorities(bundle: str) -> set[bytes]:
    """Returns the authorities, as DER, of a caBundle (PEM in base64); an empty set if it cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=b64decode(bundle).decode("ascii"))
    except (ssl.SSLError, ValueError):
        return set()
    return set(context.get_ca_certs(binary_form=True))


def certificates(answers: ReadyzAnswers, now: datetime) -> Iterator[Line]:
    """Yields how long the certificates of the replicas are valid."""
    for pod, answer in answers.items():
        if end := time_of(at(answer, "certificate")):
            days = (end - now).days
            status = FAIL if end <= now else WARN if days < MIN_DAYS else PASS
            code = "certificate-ended" if status is FAIL else "certificate"
            yield line(status, code, pod=pod, days=days, end=end)


def previews(state: Object, problem: str, own_release: str) -> Iterator[Line]:
    """Yields whether the preview service answers, and whether it has the plugin's release."""
    release = text_at(state, "version") or OLD_RELEASE
    if problem:
        yield line(WARN, "no-preview-service", why=problem)
    else:
        yield line(PASS if release == own_release else WARN, "release", release=release, own=own_release)


def tables(answers: ReadyzAnswers, revision: str, problem: str) -> Iterator[Line]:
    """Yields the table's problem, if it has one, and whether all replicas use the preview service's table."""
    if problem:
        yield line(FAIL, "rule-table", why=problem)
    if not answers:
        yield line(FAIL, "no-replica")
    other = other_table(revision) if revision else ""
    for pod, answer in answers.items():
        if isinstance(answer, str):
            yield line(FAIL, "replica-without-answer", pod=pod, why=printable(answer, 200))
        elif answer.get("problem"):
            yield line(FAIL, "replica-problem", pod=pod, why=printable(text_at(answer, "problem"), 200))
        else:
            status = PASS if revision in ("", answer.get("table")) else WARN
            yield line(status, "replica-table", pod=pod, table=answer.get("table"), other=other)


def bundles(registrations: Mapping[str, Object | None], issuers: set[bytes] | None) -> Iterator[Line]:
    """Yields whether registrations exist, and trust one of ``issuers`` (if None, any authority)."""
    for kind, registration in registrations.items():
        wrong = list[str]()
        for hook in maps_at(registration, "webhooks"):
            trusted = authorities(text_at(hook, "clientConfig", "caBundle"))
            wrong += [] if trusted and (issuers is None or trusted & issuers) else [text_at(hook, "name")]
        if registration is None:
            yield line(FAIL, "no-registration", kind=kind)
        else:
            yield line(FAIL if wrong else PASS, "ca-bundle", kind=kind, names=join_names(wrong))


def left_out(
    registration: Object | None, kinds: Collection[str], namespaces: Sequence[Object]
) -> Iterator[Line]:
    """Yields which kinds (``GROUP/VERSION/RESOURCE``) and namespaces are not sent to the webhook."""
    hooks = [
        (hook, {kind for rule in maps_at(hook, "rules") for kind in _kinds(rule)})
        for hook in maps_at(registration, "webhooks")
    ]
    sent_kinds = {kind for _, resources in hooks for kind in resources} & set(kinds)
    other_kinds = sorted(set(kinds) - sent_kinds)
    status = WARN if any(not kind.startswith("batch/") for kind in other_kinds) else PASS
    sent, others = ", ".join(sorted(sent_kinds)) or "nothing", ", ".join(other_kinds) or "none"
    yield line(status, "kinds-sent", sent=sent, others=others)
    user_namespaces = [namespace for namespace in namespaces if name_of(namespace) not in SYSTEM_NAMESPACES]
    # Webhooks for Pods receive Pods of changed jobs from all namespaces, so their selectors are ignored.
    selectors = [hook.get("namespaceSelector") for hook, resources in hooks if resources != {"/v1/pods"}]
    excluded = [
        name_of(namespace)
        for namespace in user_namespaces
        if all(unmet(selector, labels(namespace)) for selector in selectors)
    ]
    status = WARN if user_namespaces and len(excluded) == len(user_namespaces) else PASS
    yield line(status, "namespaces-left-out", names=join_names(excluded) or "none")


def _kinds(rule: Object) -> Iterator[str]:
    pairs = (f"{group}/{version}" for group in rule["apiGroups"] for version in rule["apiVersions"])
    return (f"{pair}/{name}" for pair in pairs for name in rule["resources"])


def job(stored: Object, refusal: str, case: Case, *, should_change: bool) -> Iterator[Line]:
    """Yields the result of a job's dry run; ``should_change`` is whether the rule table changes the job."""
    if refusal:
        yield line(FAIL, "job-refused", namespace=case.namespace, why=printable(refusal, 300))
    elif any(ADDED in labels(template, "annotations") for template in templates(stored)):
        yield line(PASS, "job-changed", namespace=case.namespace)
    else:
        for finding in explain_unchanged(case):
            status, remedy = (FAIL, WEBHOOK_LOGS) if should_change else (WARN, finding.remedy)
            yield line(status, "job-unchanged", namespace=case.namespace, why=finding.text, remedy=remedy)


def placement(lease: Object | None, now: datetime, *, is_used: bool, has_kueue: bool) -> Iterator[Line]:
    """Yields whether the placement program runs, if the rule table uses it (``is_used``)."""
    if is_used:
        problem, leader = why_stopped(lease, now), text_at(lease, "spec", "holderIdentity")
        yield line(FAIL if problem else PASS, "placement", why=problem, leader=leader)
    else:
        yield line(PASS if has_kueue else WARN, "no-placement")


def queues(*, is_used: bool, has_kueue: bool) -> Iterator[Line]:
    """Yields a problem if the table uses a Kueue that is not installed, or ignores an installed Kueue."""
    if is_used != has_kueue:
        yield line(FAIL, "queues-without-kueue") if is_used else line(WARN, "kueue-unused")


def levels(used: Collection[str], existing: Collection[str]) -> Iterator[Line]:
    """Yields whether a Topology of Kueue has each level that the rule table uses."""
    names = join_names(sorted(existing)) or "none"
    for level in sorted(used):
        yield line(PASS if level in existing else WARN, "kueue-level", level=level, names=names)


def guard(
    policies: Sequence[Object], bindings: Sequence[Object], accounts: Mapping[str, bool], *, has_program: bool
) -> Iterator[Line]:
    """Yields whether the guard's policies are enforced, and whether they permit the accounts of operators.

    If the placement program is installed (``has_program``), a policy must limit its account, too.
    """
    actions = {name_of(policy): set[str]() for policy in policies}
    for binding in (item for item in bindings if text_at(item, "spec", "policyName") in actions):
        actions[binding["spec"]["policyName"]] |= {*binding["spec"]["validationActions"]}
    if has_program and not any("Deny" in actions.get(name, ()) for name in ACCOUNT_POLICIES):
        yield line(FAIL, "placement-account")
    guard_policies = {name for name in actions if name.startswith(f"{NAME}-guard-")}
    broken = sorted({*(POLICIES - guard_policies), *(name for name in guard_policies if not actions[name])})
    warning = sorted(name for name in guard_policies if actions[name] and "Deny" not in actions[name])
    if not guard_policies:
        yield line(WARN, "no-guard")
        return
    if broken:
        yield line(FAIL, "guard-incomplete", names=join_names(broken))
    else:
        yield line(WARN if warning else PASS, "guard", names=join_names(warning), count=len(guard_policies))
    if outdated := sorted(guard_policies - POLICIES - {KINDS_POLICY}):
        yield line(FAIL, "guard-outdated", names=join_names(outdated), policies=" ".join(outdated))
    for account in sorted(account for account, is_bound in accounts.items() if not is_bound):
        yield line(FAIL, "account-refused", account=account)
