"""``check``: the result of each check; tests/plane/fleets/test_check.py breaks a real installation."""

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
from tests.kubectl_ultraserver.build import case, fleet, run, stored, work
from tests.placement.stored import store_nodes
from tests.placement.world import NOW, servers

CA = new_authority(datetime.now(NOW.tzinfo), timedelta(days=30)).certificate_pem()
BUNDLE = base64.b64encode(CA).decode()
OTHER = base64.b64encode(
    new_authority(datetime.now(NOW.tzinfo), timedelta(days=30)).certificate_pem()
).decode()
NODES = [replace(node, allocatable={"aws.amazon.com/neuron": 16000}) for node in servers(2).values()]
LOST = [replace(node, labels={**node.labels, SERVER_4: "", SERVER_2: ""}) for node in NODES]
BARE = [replace(node, allocatable={"aws.amazon.com/neuron": 0}) for node in NODES]
MPI = cluster.MPIJOBS
LEASE = {"spec": {"renewTime": "2026-11-21T11:59:55Z", "holderIdentity": "placement-1"}}


def deployment(
    name: str = NAME, image: str = f"registry/{NAME}:1", ready: int = 2, **status: Any
) -> dict[str, Any]:
    pod = {"containers": [{"image": image}], "serviceAccountName": "runner"}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {"spec": pod}}
    meta = {"namespace": NAME, "name": name}
    return {"metadata": meta, "spec": spec, "status": {"readyReplicas": ready, **status}}


def pod(reason: str, image: str = NAME) -> dict[str, Any]:
    waiting = [{"image": image, "state": {"waiting": {"reason": reason}}}]
    return {"metadata": {"name": "p", "labels": {"app": NAME}}, "status": {"containerStatuses": waiting}}


def hooks(bundle: str = BUNDLE, *rows: dict[str, Any], **labels: str) -> dict[str, Any]:
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


ACCOUNT, POD_GUARD = "ultraserver-placement-account", f"{NAME}-guard-pods"
OLDER = f"{NAME}-guard-affinity"


def policies(*names: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name}} for name in names or sorted(installed.POLICIES)]


def bound(action: str = "Deny", names: Iterable[str] = installed.POLICIES) -> list[dict[str, Any]]:
    return [{"spec": {"policyName": name, "validationActions": [action]}} for name in names]


def guard(
    policies: list[dict[str, Any]],
    bindings: list[dict[str, Any]],
    accounts: dict[str, bool] | None = None,
    *,
    placement: bool = True,
) -> Iterator[Line]:
    return installed.guard(policies, bindings, accounts or {}, has_program=placement)


def operators(kinds: list[str], image: str, ready: int = 1, *, kueue: bool = False) -> Iterator[Line]:
    return cluster.operators(kinds, [deployed_program(deployment("operator", image, ready))], has_kueue=kueue)


def tried(came: dict[str, Any], refused: str = "", *, wanted: bool = True, **known: Any) -> Iterator[Line]:
    return installed.job(came, refused, case(work((), job=came), **known), should_change=wanted)


def replica(**message: str) -> dict[str, Any]:
    return {"p": {"status": "ok", "table": "r1", **message}}


def certificates(end: str) -> Iterator[Line]:
    return installed.certificates(replica(certificate=f"{end}T12:00:00Z"), NOW)


def left_out(kinds: list[str], *rows: dict[str, Any], **labels: str) -> Iterator[Line]:
    return installed.left_out(hooks(BUNDLE, *rows, **labels), kinds, SPACES)


SPACES = [namespace_object("kube-system"), namespace_object("a"), namespace_object("b", gpu="no")]
GUARANTEED = Table(units=units_of([], [{"namespaces": "a", "unit": SERVER_4, "count": 3}]))
GATED = {"is_used": True, "has_kueue": False}
ROW: dict[str, Any] = {"key": "gpu", "operator": "NotIn", "values": ["no"]}

HAS_KEY = {"key": "gpu", "operator": "Exists"}
QUOTA = {"type": "ReplicaFailure", "message": "exceeded quota"}
SERVICE = "system:serviceaccount:"
ENFORCE = {"pod-security.kubernetes.io/enforce": "baseline"}

JUDGED: list[tuple[Iterator[Line], list[str]]] = [
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
    (cluster.nodes(fleet([*NODES[1:], *LOST[:1]])), ["warn nodes-without-unit: 1 of 8 "]),
    (cluster.nodes(fleet(LOST)), ["fail nodes-without-unit: 8 of 8 "]),
    (cluster.nodes(fleet(NODES, table=GUARANTEED)), ["pass nodes", "warn guarantees: 3 units of "]),
    (cluster.nodes(fleet(BARE)), ["fail nodes-without-devices: n1-0, n1-1, n1-2, n1-3 and 4 more"]),
    (operators([MPI], "r.io/x/mpi-operator:0.8.0"), ["pass operator: mpi-operator 0.8.0 is "]),
    (operators([MPI], "mpi-operator@sha256:0", 0), ["fail operator: mpi-operator  is "]),
    (operators([MPI], "other"), ["warn operator-not-found: mpi-operator"]),
    (operators([], "other", kueue=True), [f"warn no-mpijobs: {MPI}", "warn kueue-not-found: kueue"]),
    (operators([], "kueue:v0.15.2", kueue=True), ["warn no-mpijobs", "pass kueue: v0.15.2"]),
    (operators([], "kueue:v0.9.1", kueue=True), ["warn no-mpijobs", "pass kueue", "warn old-kueue: v0.9.1"]),
    (operators([], "kueue@sha256:0"), ["warn no-mpijobs", "warn old-kueue: Kueue without a tag was"]),
    (cluster.accounts({}), []),
    (
        cluster.accounts({f"{SERVICE}ml:mpi-operator": True, f"{SERVICE}kubeflow:mpi-operator": False}),
        ["pass account: kubeflow", "pass account: ml"],
    ),
    (cluster.accounts({f"{SERVICE}ml:mpi-operator": False}), ["fail account: ml"]),
    (cluster.namespace(None, ""), ["pass no-namespace"]),
    (
        cluster.namespace({"status": {"phase": "Terminating"}}, "x"),
        ["fail namespace-terminating: as the cluster has it"],
    ),
    (cluster.namespace(namespace_object(NAME), "403 no"), ["fail namespace: 403 no"]),
    (cluster.namespace(namespace_object(NAME), ""), ["pass namespace: PodSecurity as the cluster has it, a"]),
    (cluster.namespace(namespace_object(NAME, **ENFORCE), ""), ["pass namespace: PodSecurity baseline, a"]),
    (installed.pods([deployment()], []), [f"pass deployment: {NAME} has 2 of 2 "]),
    (installed.pods([deployment(ready=1)], []), ["warn deployment: 1 of 2 "]),
    (installed.pods([], []), ["fail no-deployment"]),
    (
        installed.pods([deployment(ready=0)], [pod("ImagePullBackOff")]),
        [f"fail image: {NAME}, which names no registry, cannot", "fail deployment: ImagePullBackOff"],
    ),
    (installed.pods([deployment(ready=0)], [pod("CrashLoopBackOff")]), ["fail deployment: 0 of 2 "]),
    (
        installed.pods([deployment(conditions=[QUOTA], ready=0)], [pod("ErrImagePull", "r.io/x")]),
        ["fail image: r.io/x cannot", "fail deployment: exceeded quota; ErrImagePull"],
    ),
    (certificates("2026-12-21"), ["pass certificate: 30 days"]),
    (certificates("2026-11-22"), ["warn certificate: 1 days"]),
    (certificates("2026-11-20"), ["fail certificate-ended: ended on 2026-11-20"]),
    (installed.tables(replica(), "r1", ""), ["pass replica-table: r1; the preview service uses r1"]),
    (installed.tables(replica(), "r2", ""), ["warn replica-table: r1; the preview service uses r2"]),
    (installed.tables(replica(), "", ""), ["pass replica-table: r1"]),
    (installed.tables(replica(problem="bad files"), "r1", ""), ["fail replica-problem: bad files"]),
    (installed.tables({"p": "no route"}, "r1", ""), ["fail replica-without-answer: no route"]),
    (installed.tables({}, "", "nothing there"), ["fail rule-table: nothing there", "fail no-replica"]),
    (installed.previews({"version": "1"}, "", "1"), ["pass release"]),
    (installed.previews({"version": "1"}, "", "2"), ["warn release"]),
    (installed.previews({}, "", "2"), ["warn release: older than 0.3"]),
    (installed.previews({}, "it is off", "2"), ["warn no-preview-service: it is off"]),
    (installed.bundles({"M": hooks()}, installed.authorities(BUNDLE)), ["pass ca-bundle: M"]),
    (installed.bundles({"M": hooks(OTHER)}, installed.authorities(BUNDLE)), ["fail ca-bundle: mpijobs"]),
    (installed.bundles({"M": hooks(OTHER)}, None), ["pass ca-bundle"]),
    (installed.bundles({"M": hooks("")}, None), ["fail ca-bundle"]),
    (installed.bundles({"M": hooks("bm8=")}, None), ["fail ca-bundle"]),
    (installed.bundles({"M": None}, None), ["fail no-registration: M"]),
    (left_out([MPI]), [f"pass kinds-sent: sent: {MPI}; ", "pass namespaces-left-out: none"]),
    (
        left_out(["batch/v1/jobs"]),
        ["pass kinds-sent: not sent: batch/v1/jobs", "pass namespaces-left-out: none"],
    ),
    (
        left_out(["j/v1/jobsets"]),
        ["warn kinds-sent: not sent: j/v1/jobsets", "pass namespaces-left-out: none"],
    ),
    (
        left_out([], ROW),
        ["pass kinds-sent: sent: nothing; not sent: none", "pass namespaces-left-out: out: b"],
    ),
    (left_out([], ROW | {"operator": "In"}), ["pass kinds-sent", "pass namespaces-left-out: out: a"]),
    (left_out([], HAS_KEY), ["pass kinds-sent", "pass namespaces-left-out: out: a"]),
    (
        left_out([], HAS_KEY | {"operator": "DoesNotExist"}),
        ["pass kinds-sent", "pass namespaces-left-out: out: b"],
    ),
    (left_out([], gpu="yes"), ["pass kinds-sent", "warn namespaces-left-out: out: a, b"]),
    (tried(stored()), ["pass job-changed: team"]),
    (tried({}, "denied"), ["fail job-refused: denied"]),
    (tried(stored(mutated=False)), ["fail job-unchanged: added nothing"]),
    (
        tried(
            stored(mutated=False),
            wanted=False,
            namespace_object=namespace_object("team", **{INJECT: "false"}),
        ),
        ["warn job-unchanged: added nothing"],
    ),
    (installed.placement(LEASE, NOW, **GATED), ["pass placement: placement-1"]),
    (installed.placement(None, NOW, **GATED), ["fail placement: does not run"]),
    (installed.placement(LEASE, NOW + timedelta(hours=1), **GATED), ["fail placement: placement-1"]),
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
    (guard(policies(), bound(), {"op": True}), ["pass guard: 3 "]),
    (guard(policies("other"), bound(), {"op": False}, placement=False), ["warn no-guard"]),
    (guard(policies(ACCOUNT), bound(names=[ACCOUNT])), ["warn no-guard"]),
    (guard(policies("other"), bound()), ["fail placement-account", "warn no-guard"]),
    (guard(policies(ACCOUNT), bound("Warn", [ACCOUNT])), ["fail placement-account", "warn no-guard"]),
    (guard(policies(), bound("Warn"), placement=False), [f"warn guard: {POD_GUARD}"]),
    (
        guard(policies(*installed.POLICIES, ACCOUNT), [*bound("Warn"), *bound(names=[ACCOUNT])]),
        [f"warn guard: {POD_GUARD}"],
    ),
    (guard(policies(), bound(names=[POD_GUARD])), [f"fail guard-incomplete: {NAME}-guard-jobs"]),
    (guard(policies(POD_GUARD), bound()), [f"fail guard-incomplete: {NAME}-guard-jobs"]),
    (guard(policies(), bound(), {"op": False}), ["pass guard", "fail account-refused: op"]),
    (
        guard(
            policies(*installed.POLICIES, installed.KINDS_POLICY),
            bound(names=[*installed.POLICIES, installed.KINDS_POLICY]),
        ),
        ["pass guard: 4 "],
    ),
    (
        guard(policies(*installed.POLICIES, OLDER), bound(names=[*installed.POLICIES, OLDER])),
        ["pass guard", f"fail guard-outdated: {OLDER}"],
    ),
]
"""The results of each check: the status, the code, and after a colon a fact that the text has."""


def test_every_check_reports_its_results() -> None:
    codes = {"not-checked", "not-read"}
    for lines, expected in JUDGED:
        results = [*lines]
        assert [f"{line.status} {line.code}" for line in results] == [
            each.partition(": ")[0] for each in expected
        ]
        for line, each in zip(results, expected, strict=True):
            assert each.partition(": ")[2] in line.text
            assert bool(line.remedy and line.link) == (line.status != "pass"), line
            codes.add(line.code)
    assert codes == set(RESULTS)


def test_the_remedy_for_an_unchanged_job_is_the_log_only_if_the_rule_table_would_change_the_job() -> None:
    [log], [other] = (tried(stored(mutated=False), wanted=wanted) for wanted in (True, False))
    assert log.remedy == WEBHOOK_LOGS
    assert other.remedy not in ("", WEBHOOK_LOGS)


def test_the_accounts_that_are_expected_are_those_that_the_chart_binds() -> None:
    guard = REPOSITORY / "manifests" / "chart" / "templates" / "guard.yaml"
    bound = re.findall(
        r"\{kind: ServiceAccount, name: (mpi-operator), namespace: ([a-z-]+)\}", guard.read_text("utf-8")
    )
    assert {
        f"{SERVICE}{namespace_object}:{name}" for name, namespace_object in bound
    } == cluster.BOUND_ACCOUNTS


def test_links_lead_into_the_documents() -> None:
    links = {result.page for result in RESULTS.values() if result.page}
    assert len(links) > 10
    for link in links:
        document, _, anchor = link.partition("#")
        assert not anchor or anchor in anchors(f"docs/{document}"), link
        assert (REPOSITORY / "docs" / document).exists(), link


def test_the_chart_refuses_the_versions_that_fail() -> None:
    about = yaml.safe_load((REPOSITORY / "manifests" / "chart" / "Chart.yaml").read_text("utf-8"))
    assert about["kubeVersion"] == f">={'.'.join(map(str, cluster.OLDEST))}.0-0"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    store_nodes(made, 2)
    made.put("/version", {"gitVersion": "v1.36.3"})
    made.put("/apis", {"groups": []})
    monkeypatch.setattr(cli, "connect_as_user", lambda *_: (made, "team"))
    return made


def test_the_exit_status_has_the_result_also_if_some_objects_may_not_be_read(api: Cluster) -> None:
    api.refuse = "GET /api/v1/nodes"
    code, out, _ = run("check")
    assert code == cli.CHECK_FAILED
    assert "[pass] kubernetes: Kubernetes v1.36.3" in out
    assert "[warn] nodes: not checked: cannot list nodes" in out
    assert f"[fail] registrations: there is no MutatingWebhookConfiguration {NAME}\n" in out
    assert "       hint: install it; until then no job is sent to the webhook\n       see docs/operat" in out
    code, output, _ = run("check", "-o", "json")
    document = json.loads(output)
    assert (code, document["fail"]) == (
        cli.CHECK_FAILED,
        sum(line["status"] == "fail" for line in document["lines"]),
    )
    assert out.endswith(
        f"{document['pass']} passed, {document['warn']} warnings, {document['fail']} failures\n"
    )
    api.refuse = "GET /version"
    lines = json.loads(run("check", "--pre", "-o", "json")[1])["lines"]
    codes = {line["check"]: line["code"] for line in lines}
    assert codes["kubernetes"] == "not-checked"
    assert codes["rights"] == "not-read"
