"""Tests of the result of each check. tests/plane/fleets/test_check.py breaks a real installation."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml

from certs.authority import new_authority
from contract.keys import INJECT, SERVER_2, SERVER_4
from kubectl_ultraserver import __main__ as cli
from kubectl_ultraserver.check import cluster, installed
from kubectl_ultraserver.check.line import Line, deployed_program
from kubectl_ultraserver.check.messages import RESULTS, WEBHOOK_LOGS
from kubectl_ultraserver.objects import NAME
from kubectl_ultraserver.table import Table
from placement.observe.model import units_of
from tests.docs.blocks import REPOSITORY, anchors
from tests.kubectl_ultraserver.api import Cluster
from tests.kubectl_ultraserver.build import fleet, job_case, run_plugin, stored_job, with_installation
from tests.placement.stored import store_nodes
from tests.placement.world import NOW, servers

CA = new_authority(datetime.now(NOW.tzinfo), timedelta(days=30)).certificate_pem()
BUNDLE = base64.b64encode(CA).decode()
OTHER_BUNDLE = base64.b64encode(
    new_authority(datetime.now(NOW.tzinfo), timedelta(days=30)).certificate_pem()
).decode()
NODES = [replace(node, allocatable={"aws.amazon.com/neuron": 16000}) for node in servers(2).values()]
NODES_WITHOUT_UNIT = [replace(node, labels={**node.labels, SERVER_4: "", SERVER_2: ""}) for node in NODES]
NODES_WITHOUT_DEVICES = [replace(node, allocatable={"aws.amazon.com/neuron": 0}) for node in NODES]
MPIJOBS = cluster.MPIJOBS
LEASE = {"spec": {"renewTime": "2026-11-21T11:59:55Z", "holderIdentity": "placement-1"}}


def deployment(
    name: str = NAME, image: str = f"registry/{NAME}:1", ready: int = 2, **status: Any
) -> dict[str, Any]:
    pod_template = {"containers": [{"image": image}], "serviceAccountName": "runner"}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {"spec": pod_template}}
    meta = {"namespace": NAME, "name": name}
    return {"metadata": meta, "spec": spec, "status": {"readyReplicas": ready, **status}}


def waiting_pod(reason: str, image: str = NAME) -> dict[str, Any]:
    statuses = [{"image": image, "state": {"waiting": {"reason": reason}}}]
    return {"metadata": {"name": "p", "labels": {"app": NAME}}, "status": {"containerStatuses": statuses}}


def webhook_configuration(bundle: str = BUNDLE, *rows: dict[str, Any], **labels: str) -> dict[str, Any]:
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v2beta1"], "resources": ["mpijobs"]}
    selector = {"matchLabels": labels, "matchExpressions": list(rows)}
    hook = {
        "name": "mpijobs",
        "clientConfig": {"caBundle": bundle},
        "rules": [rule],
        "namespaceSelector": selector,
    }
    return {"webhooks": [hook]}


def namespace_object(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


ACCOUNT_POLICY, POD_GUARD = "ultraserver-placement-account", f"{NAME}-guard-pods"
OLD_POLICY = f"{NAME}-guard-affinity"


def policy_objects(*names: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name}} for name in names or sorted(installed.POLICIES)]


def policy_bindings(action: str = "Deny", names: Iterable[str] = installed.POLICIES) -> list[dict[str, Any]]:
    return [{"spec": {"policyName": name, "validationActions": [action]}} for name in names]


def guard_check(
    policies: list[dict[str, Any]],
    bindings: list[dict[str, Any]],
    accounts: dict[str, bool] | None = None,
    *,
    placement: bool = True,
) -> Iterator[Line]:
    return installed.guard(policies, bindings, accounts or {}, has_program=placement)


def operator_check(kinds: list[str], image: str, ready: int = 1, *, kueue: bool = False) -> Iterator[Line]:
    return cluster.operators(kinds, [deployed_program(deployment("operator", image, ready))], has_kueue=kueue)


def job_check(
    job: dict[str, Any], refused: str = "", *, should_change: bool = True, **known: Any
) -> Iterator[Line]:
    return installed.job(
        job, refused, with_installation(job_case((), job=job), **known), should_change=should_change
    )


def replica_answer(**message: str) -> dict[str, Any]:
    return {"p": {"status": "ok", "table": "r1", **message}}


def certificate_check(end: str) -> Iterator[Line]:
    return installed.certificates(replica_answer(certificate=f"{end}T12:00:00Z"), NOW)


def selector_check(kinds: list[str], *rows: dict[str, Any], **labels: str) -> Iterator[Line]:
    return installed.left_out(webhook_configuration(BUNDLE, *rows, **labels), kinds, NAMESPACES)


NAMESPACES = [namespace_object("kube-system"), namespace_object("a"), namespace_object("b", gpu="no")]
TABLE_WITH_GUARANTEE = Table(units=units_of([], [{"namespaces": "a", "unit": SERVER_4, "count": 3}]))
WITH_PLACEMENT = {"is_used": True, "has_kueue": False}
NOT_IN: dict[str, Any] = {"key": "gpu", "operator": "NotIn", "values": ["no"]}

EXISTS = {"key": "gpu", "operator": "Exists"}
QUOTA = {"type": "ReplicaFailure", "message": "exceeded quota"}
SERVICE = "system:serviceaccount:"
ENFORCE = {"pod-security.kubernetes.io/enforce": "baseline"}

CASES: list[tuple[Iterator[Line], list[str]]] = [
    (cluster.kubernetes("v1.34.1-eks-3"), ["pass kubernetes: v1.34.1-eks-3"]),
    (cluster.kubernetes("v1.29.9"), ["fail old-kubernetes: v1.29.9"]),
    (cluster.kubernetes("v1.30.14"), ["warn kubernetes: v1.30.14"]),
    (cluster.kubernetes("v1.33.0"), ["warn kubernetes: v1.33.0"]),
    (cluster.kubernetes("v2.0"), ["warn kubernetes: v2.0"]),
    (cluster.kubernetes(""), ["fail old-kubernetes"]),
    (cluster.rights([]), ["pass rights"]),
    (cluster.rights(["clusterroles", "roles"]), ["fail rights: clusterroles, roles"]),
    (cluster.nodes(fleet(NODES)), ["pass nodes: 8 nodes of 2 "]),
    (cluster.nodes(fleet([])), ["warn no-ultraservers"]),
    (cluster.nodes(fleet([*NODES[1:], *NODES_WITHOUT_UNIT[:1]])), ["warn nodes-without-unit: 1 of 8 "]),
    (cluster.nodes(fleet(NODES_WITHOUT_UNIT)), ["fail nodes-without-unit: 8 of 8 "]),
    (cluster.nodes(fleet(NODES, table=TABLE_WITH_GUARANTEE)), ["pass nodes", "warn guarantees: 3 units of "]),
    (
        cluster.nodes(fleet(NODES_WITHOUT_DEVICES)),
        ["fail nodes-without-devices: n1-0, n1-1, n1-2, n1-3 and 4 more"],
    ),
    (operator_check([MPIJOBS], "r.io/x/mpi-operator:0.8.0"), ["pass operator: mpi-operator 0.8.0 is "]),
    (operator_check([MPIJOBS], "mpi-operator@sha256:0", 0), ["fail operator: mpi-operator  is "]),
    (operator_check([MPIJOBS], "other"), ["warn operator-not-found: mpi-operator"]),
    (operator_check([], "other", kueue=True), [f"warn no-mpijobs: {MPIJOBS}", "warn kueue-not-found: kueue"]),
    (operator_check([], "kueue:v0.15.2", kueue=True), ["warn no-mpijobs", "pass kueue: v0.15.2"]),
    (
        operator_check([], "kueue:v0.9.1", kueue=True),
        ["warn no-mpijobs", "pass kueue", "warn old-kueue: v0.9.1"],
    ),
    (operator_check([], "kueue@sha256:0"), ["warn no-mpijobs", "warn old-kueue: Kueue without a tag was"]),
    (cluster.accounts({}), []),
    (
        cluster.accounts({f"{SERVICE}ml:mpi-operator": True, f"{SERVICE}kubeflow:mpi-operator": False}),
        ["pass account: kubeflow", "pass account: ml"],
    ),
    (cluster.accounts({f"{SERVICE}ml:mpi-operator": False}), ["fail account: ml"]),
    (cluster.namespace(None, ""), ["pass no-namespace"]),
    (
        cluster.namespace({"status": {"phase": "Terminating"}}, "x"),
        ["fail namespace-terminating: cluster default"],
    ),
    (cluster.namespace(namespace_object(NAME), "403 no"), ["fail namespace: 403 no"]),
    (cluster.namespace(namespace_object(NAME), ""), ["pass namespace: PodSecurity cluster default, a"]),
    (cluster.namespace(namespace_object(NAME, **ENFORCE), ""), ["pass namespace: PodSecurity baseline, a"]),
    (installed.pods([deployment()], []), [f"pass deployment: {NAME} has 2 of 2 "]),
    (installed.pods([deployment(ready=1)], []), ["warn deployment: 1 of 2 "]),
    (installed.pods([], []), ["fail no-deployment"]),
    (
        installed.pods([deployment(ready=0)], [waiting_pod("ImagePullBackOff")]),
        [f"fail image: {NAME}, which names no registry, cannot", "fail deployment: ImagePullBackOff"],
    ),
    (installed.pods([deployment(ready=0)], [waiting_pod("CrashLoopBackOff")]), ["fail deployment: 0 of 2 "]),
    (
        installed.pods([deployment(conditions=[QUOTA], ready=0)], [waiting_pod("ErrImagePull", "r.io/x")]),
        ["fail image: r.io/x cannot", "fail deployment: exceeded quota; ErrImagePull"],
    ),
    (certificate_check("2026-12-21"), ["pass certificate: 30 days"]),
    (certificate_check("2026-11-22"), ["warn certificate: 1 days"]),
    (certificate_check("2026-11-20"), ["fail certificate-ended: ended on 2026-11-20"]),
    (installed.tables(replica_answer(), "r1", ""), ["pass replica-table: r1; the preview service uses r1"]),
    (installed.tables(replica_answer(), "r2", ""), ["warn replica-table: r1; the preview service uses r2"]),
    (installed.tables(replica_answer(), "", ""), ["pass replica-table: r1"]),
    (installed.tables(replica_answer(problem="bad files"), "r1", ""), ["fail replica-problem: bad files"]),
    (installed.tables({"p": "no route"}, "r1", ""), ["fail replica-without-answer: no route"]),
    (installed.tables({}, "", "nothing there"), ["fail rule-table: nothing there", "fail no-replica"]),
    (installed.previews({"version": "1"}, "", "1"), ["pass release"]),
    (installed.previews({"version": "1"}, "", "2"), ["warn release"]),
    (installed.previews({}, "", "2"), ["warn release: older than 0.3"]),
    (installed.previews({}, "it is off", "2"), ["warn no-preview-service: it is off"]),
    (installed.bundles({"M": webhook_configuration()}, installed.authorities(BUNDLE)), ["pass ca-bundle: M"]),
    (
        installed.bundles({"M": webhook_configuration(OTHER_BUNDLE)}, installed.authorities(BUNDLE)),
        ["fail ca-bundle: mpijobs"],
    ),
    (installed.bundles({"M": webhook_configuration(OTHER_BUNDLE)}, None), ["pass ca-bundle"]),
    (installed.bundles({"M": webhook_configuration("")}, None), ["fail ca-bundle"]),
    (installed.bundles({"M": webhook_configuration("bm8=")}, None), ["fail ca-bundle"]),
    (installed.bundles({"M": None}, None), ["fail no-registration: M"]),
    (
        selector_check([MPIJOBS]),
        [f"pass kinds-sent: kinds sent to the webhook: {MPIJOBS}; ", "pass namespaces-left-out: none"],
    ),
    (
        selector_check(["batch/v1/jobs"]),
        ["pass kinds-sent: not sent: batch/v1/jobs", "pass namespaces-left-out: none"],
    ),
    (
        selector_check(["j/v1/jobsets"]),
        ["warn kinds-sent: not sent: j/v1/jobsets", "pass namespaces-left-out: none"],
    ),
    (
        selector_check([], NOT_IN),
        [
            "pass kinds-sent: kinds sent to the webhook: nothing; not sent: none",
            "pass namespaces-left-out: webhook: b",
        ],
    ),
    (
        selector_check([], NOT_IN | {"operator": "In"}),
        ["pass kinds-sent", "pass namespaces-left-out: webhook: a"],
    ),
    (selector_check([], EXISTS), ["pass kinds-sent", "pass namespaces-left-out: webhook: a"]),
    (
        selector_check([], EXISTS | {"operator": "DoesNotExist"}),
        ["pass kinds-sent", "pass namespaces-left-out: webhook: b"],
    ),
    (selector_check([], gpu="yes"), ["pass kinds-sent", "warn namespaces-left-out: webhook: a, b"]),
    (job_check(stored_job()), ["pass job-changed: team"]),
    (job_check({}, "denied"), ["fail job-refused: denied"]),
    (job_check(stored_job(mutated=False)), ["fail job-unchanged: added nothing"]),
    (
        job_check(
            stored_job(mutated=False),
            should_change=False,
            namespace_object=namespace_object("team", **{INJECT: "false"}),
        ),
        ["warn job-unchanged: added nothing"],
    ),
    (installed.placement(LEASE, NOW, **WITH_PLACEMENT), ["pass placement: placement-1"]),
    (installed.placement(None, NOW, **WITH_PLACEMENT), ["fail placement: does not run"]),
    (installed.placement(LEASE, NOW + timedelta(hours=1), **WITH_PLACEMENT), ["fail placement: placement-1"]),
    (installed.placement(None, NOW, is_used=False, has_kueue=True), ["pass no-placement"]),
    (installed.placement(None, NOW, is_used=False, has_kueue=False), ["warn no-placement"]),
    (installed.queues(is_used=True, has_kueue=True), []),
    (installed.queues(is_used=False, has_kueue=False), []),
    (installed.queues(is_used=True, has_kueue=False), ["fail queues-without-kueue"]),
    (installed.queues(is_used=False, has_kueue=True), ["warn kueue-unused"]),
    (installed.levels([], ["rack"]), []),
    (
        installed.levels(["rack", "block"], ["rack"]),
        ["warn kueue-level: only rack", "pass kueue-level: rack"],
    ),
    (installed.levels(["rack"], []), ["warn kueue-level: only none"]),
    (guard_check(policy_objects(), policy_bindings(), {"op": True}), ["pass guard: 3 "]),
    (
        guard_check(policy_objects("other"), policy_bindings(), {"op": False}, placement=False),
        ["warn no-guard"],
    ),
    (guard_check(policy_objects(ACCOUNT_POLICY), policy_bindings(names=[ACCOUNT_POLICY])), ["warn no-guard"]),
    (guard_check(policy_objects("other"), policy_bindings()), ["fail placement-account", "warn no-guard"]),
    (
        guard_check(policy_objects(ACCOUNT_POLICY), policy_bindings("Warn", [ACCOUNT_POLICY])),
        ["fail placement-account", "warn no-guard"],
    ),
    (guard_check(policy_objects(), policy_bindings("Warn"), placement=False), [f"warn guard: {POD_GUARD}"]),
    (
        guard_check(
            policy_objects(*installed.POLICIES, ACCOUNT_POLICY),
            [*policy_bindings("Warn"), *policy_bindings(names=[ACCOUNT_POLICY])],
        ),
        [f"warn guard: {POD_GUARD}"],
    ),
    (
        guard_check(policy_objects(), policy_bindings(names=[POD_GUARD])),
        [f"fail guard-incomplete: {NAME}-guard-jobs"],
    ),
    (
        guard_check(policy_objects(POD_GUARD), policy_bindings()),
        [f"fail guard-incomplete: {NAME}-guard-jobs"],
    ),
    (
        guard_check(policy_objects(), policy_bindings(), {"op": False}),
        ["pass guard", "fail account-refused: op"],
    ),
    (
        guard_check(
            policy_objects(*installed.POLICIES, installed.KINDS_POLICY),
            policy_bindings(names=[*installed.POLICIES, installed.KINDS_POLICY]),
        ),
        ["pass guard: 4 "],
    ),
    (
        guard_check(
            policy_objects(*installed.POLICIES, OLD_POLICY),
            policy_bindings(names=[*installed.POLICIES, OLD_POLICY]),
        ),
        ["pass guard", f"fail guard-outdated: {OLD_POLICY}"],
    ),
]
"""The calls of each check, with the status and code of each result, and after a colon a part of its text."""


def test_every_check_reports_its_results() -> None:
    codes = {"not-checked", "not-read"}
    for lines, expected in CASES:
        results = [*lines]
        assert [f"{line.status} {line.code}" for line in results] == [
            result.partition(": ")[0] for result in expected
        ]
        for line, result in zip(results, expected, strict=True):
            assert result.partition(": ")[2] in line.text
            assert bool(line.remedy and line.link) == (line.status != "pass"), line
            codes.add(line.code)
    assert codes == set(RESULTS)


def test_the_remedy_for_an_unchanged_job_is_the_log_only_if_the_rule_table_would_change_the_job() -> None:
    [log], [other] = (
        job_check(stored_job(mutated=False), should_change=should_change) for should_change in (True, False)
    )
    assert log.remedy == WEBHOOK_LOGS
    assert other.remedy not in ("", WEBHOOK_LOGS)


def test_the_expected_accounts_are_the_accounts_that_the_chart_binds() -> None:
    guard = REPOSITORY / "manifests" / "chart" / "templates" / "guard.yaml"
    chart_accounts = re.findall(
        r"\{kind: ServiceAccount, name: (mpi-operator), namespace: ([a-z-]+)\}", guard.read_text("utf-8")
    )
    assert {f"{SERVICE}{namespace}:{name}" for name, namespace in chart_accounts} == cluster.BOUND_ACCOUNTS


def test_links_lead_to_documents_and_headings_that_exist() -> None:
    links = {result.page for result in RESULTS.values() if result.page}
    assert len(links) > 10
    for link in links:
        document, _, anchor = link.partition("#")
        assert not anchor or anchor in anchors(f"docs/{document}"), link
        assert (REPOSITORY / "docs" / document).exists(), link


def test_the_chart_refuses_the_kubernetes_versions_that_fail_the_check() -> None:
    chart = yaml.safe_load((REPOSITORY / "manifests" / "chart" / "Chart.yaml").read_text("utf-8"))
    assert chart["kubeVersion"] == f">={'.'.join(map(str, cluster.OLDEST))}.0-0"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster_api = Cluster()
    store_nodes(cluster_api, 2)
    cluster_api.put("/version", {"gitVersion": "v1.36.3"})
    cluster_api.put("/apis", {"groups": []})
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (cluster_api, "team"))
    return cluster_api


def test_the_exit_code_is_the_result_even_if_some_objects_cannot_be_read(api: Cluster) -> None:
    api.refuse = "GET /api/v1/nodes"
    code, out, _ = run_plugin("check")
    assert code == cli.CHECK_FAILED
    assert "[pass] kubernetes: Kubernetes v1.36.3" in out
    assert "[warn] nodes: not checked: cannot list nodes" in out
    assert f"[fail] registrations: there is no MutatingWebhookConfiguration {NAME}\n" in out
    assert "       hint: install it; until then no job is sent to the webhook\n       see docs/operat" in out
    code, output, _ = run_plugin("check", "-o", "json")
    document = json.loads(output)
    assert (code, document["fail"]) == (
        cli.CHECK_FAILED,
        sum(line["status"] == "fail" for line in document["lines"]),
    )
    assert out.endswith(
        f"{document['pass']} passed, {document['warn']} warnings, {document['fail']} failures\n"
    )
    api.refuse = "GET /version"
    lines = json.loads(run_plugin("check", "--pre", "-o", "json")[1])["lines"]
    codes = {line["check"]: line["code"] for line in lines}
    assert codes["kubernetes"] == "not-checked"
    assert codes["rights"] == "not-read"
