"""``check``: what each judge says of objects; tests/plane/fleets/test_check.py breaks a real installation."""

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
    return installed.guard(policies, bindings, accounts or {}, placement=placement)


def programs(image: str, ready: int = 1) -> list[Any]:
    return [deployed_program(deployment("operator", image, ready))]


def tried(came: dict[str, Any], refused: str = "", *, wanted: bool = True, **known: Any) -> Iterator[Line]:
    return installed.job(came, refused, case(work((), job=came), **known), expected=wanted)


def replica(**message: str) -> dict[str, Any]:
    return {"p": {"status": "ok", "table": "r1", **message}}


SPACES = [namespace_object("kube-system"), namespace_object("a"), namespace_object("b", gpu="no")]
GUARANTEE = {"namespaces": "a", "unit": SERVER_4, "count": 3}
GATED = {"is_used": True, "has_kueue": False}
ROW: dict[str, Any] = {"key": "gpu", "operator": "NotIn", "values": ["no"]}

SERVICE = "system:serviceaccount:"

JUDGED: list[tuple[Iterator[Line], list[str]]] = [
    (cluster.kubernetes("v1.34.1-eks-3"), ["pass Kubernetes v1.34.1-eks-3"]),
    (cluster.kubernetes("v1.29.9"), ["fail Kubernetes v1.29.9; "]),
    (cluster.kubernetes("v1.30.14"), ["warn Kubernetes v1.30.14; 1.34 to "]),
    (cluster.kubernetes("v1.33.0"), ["warn Kubernetes v1.33.0; 1.34 to "]),
    (cluster.kubernetes("v2.0"), ["warn Kubernetes v2.0"]),
    (cluster.kubernetes(""), ["fail Kubernetes "]),
    (cluster.rights([]), ["pass you may create"]),
    (cluster.rights(["clusterroles"]), ["fail you may not create clusterroles"]),
    (cluster.nodes(fleet(NODES)), ["pass 8 nodes of 2 UltraServers"]),
    (cluster.nodes(fleet([])), ["warn there is no UltraServer node"]),
    (cluster.nodes(fleet([*NODES[1:], *LOST[:1]])), ["warn 1 of 8 UltraServer nodes have no label"]),
    (cluster.nodes(fleet(LOST)), ["fail 8 of 8 UltraServer nodes have no label"]),
    (
        cluster.nodes(fleet(NODES, table=Table(units=units_of([], [GUARANTEE])))),
        ["pass 8 nodes of 2 UltraServers", "warn teams are guaranteed 3 units of "],
    ),
    (cluster.nodes(fleet(BARE)), ["fail 8 of 8 UltraServer nodes have no devices: n1-0, n1-1"]),
    (
        cluster.operators([MPI], programs("r.io/x/mpi-operator:0.8.0"), kueue=False),
        ["pass mpi-operator 0.8.0 is "],
    ),
    (cluster.operators([MPI], programs("mpi-operator@sha256:0", 0), kueue=False), ["fail mpi-operator  is "]),
    (cluster.operators([MPI], [], kueue=False), ["warn no Deployment has an image mpi-operator"]),
    (cluster.operators([], [], kueue=False), [f"warn the API server has no {MPI}"]),
    (cluster.operators([], programs("kueue:v0.15.2"), kueue=True), ["warn ", "pass kueue v0.15.2 is"]),
    (
        cluster.operators([], programs("kueue:v0.9.1"), kueue=True),
        ["warn ", "pass ", "warn Kueue v0.9.1 was not"],
    ),
    (cluster.accounts({}), []),
    (
        cluster.accounts({f"{SERVICE}ml:mpi-operator": True, f"{SERVICE}kubeflow:mpi-operator": False}),
        ["pass the guard will accept the pods of ", "pass the guard will accept the pods of "],
    ),
    (cluster.accounts({f"{SERVICE}ml:mpi-operator": False}), ["fail the guard will refuse the pods of "]),
    (cluster.namespace(None, ""), ["pass "]),
    (
        cluster.namespace({"status": {"phase": "Terminating"}}, "x"),
        ["fail namespace ultraserver-webhook, PodSecurity as the cluster has it, is being"],
    ),
    (
        cluster.namespace(namespace_object(NAME), "403 no"),
        ["fail namespace ultraserver-webhook, PodSecurity as the cluster"],
    ),
    (cluster.namespace(namespace_object(NAME), ""), ["pass namespace"]),
    (
        installed.pods([deployment()], []),
        [f"pass {NAME} has 2 of 2 pods ready, with image registry/{NAME}:1"],
    ),
    (installed.pods([deployment(ready=1)], []), [f"warn {NAME} has 1 of 2 pods ready"]),
    (installed.pods([], []), [f"fail there is no Deployment {NAME}/{NAME}"]),
    (
        installed.pods([deployment(ready=0)], [pod("ImagePullBackOff")]),
        [f"fail image {NAME}, which names no registry, cannot be pulled: p", "fail "],
    ),
    (
        installed.pods([deployment(ready=0)], [pod("CrashLoopBackOff")]),
        [f"fail {NAME} has 0 of 2 pods ready"],
    ),
    (
        installed.pods(
            [deployment(ready=0, conditions=[{"type": "ReplicaFailure", "message": "exceeded quota"}])], []
        ),
        [f"fail {NAME} has 0 of 2 pods ready, with image registry/{NAME}:1: exceeded quota"],
    ),
    (
        installed.certificates(replica(certificate="2026-12-21T12:00:00Z"), NOW),
        ["pass the certificate of p is"],
    ),
    (
        installed.certificates(replica(certificate="2026-11-22T12:00:00Z"), NOW),
        ["warn the certificate of p is"],
    ),
    (
        installed.certificates(replica(certificate="2026-11-20T12:00:00Z"), NOW),
        ["fail the certificate of p ended on 2026-11-20"],
    ),
    (installed.tables(replica(), "r1", ""), ["pass p uses table r1"]),
    (installed.tables(replica(), "r2", ""), ["warn p uses table r1; the preview service uses r2"]),
    (installed.tables(replica(problem="unusable table files"), "r1", ""), ["fail p: unusable table files"]),
    (installed.tables(replica(), "", ""), ["pass p uses table r1"]),
    (installed.previews({"version": "1"}, "", "1"), ["pass the installation is 1, this plugin is 1"]),
    (installed.previews({"version": "1"}, "", "2"), ["warn the installation is 1, this plugin is 2"]),
    (installed.previews({}, "", "2"), ["warn the installation is older than 0.3, this plugin is 2"]),
    (installed.previews({}, "it is off", "2"), ["warn it is off"]),
    (installed.tables({"p": "no route"}, "r1", ""), ["fail p did not answer: no route"]),
    (installed.tables({}, "", "nothing there"), ["fail the ConfigMap", "fail no replica runs"]),
    (installed.bundles({"M": hooks()}, installed.authorities(BUNDLE)), ["pass M: is trusted"]),
    (
        installed.bundles({"M": hooks(OTHER)}, installed.authorities(BUNDLE)),
        ["fail M: the caBundle does not match"],
    ),
    (installed.bundles({"M": hooks(OTHER)}, None), ["pass M"]),
    (installed.bundles({"M": hooks("")}, None), ["fail M: the caBundle does not match"]),
    (installed.bundles({"M": hooks("bm8=")}, None), ["fail M: the caBundle does not match"]),
    (installed.bundles({"M": None}, None), [f"fail there is no M {NAME}"]),
    (
        installed.left_out(hooks(), [MPI], SPACES),
        [f"pass sent: {MPI}; not sent: none", "pass namespaces left out: none"],
    ),
    (
        installed.left_out(hooks(), ["batch/v1/jobs"], SPACES),
        ["pass sent: nothing; not sent: batch/v1/jobs", "pass"],
    ),
    (
        installed.left_out(hooks(), ["j/v1/jobsets"], SPACES),
        ["warn sent: nothing; not sent: j/v1/jobsets", "pass"],
    ),
    (installed.left_out(hooks(BUNDLE, ROW), [], SPACES), ["pass", "pass namespaces left out: b"]),
    (
        installed.left_out(hooks(BUNDLE, ROW | {"operator": "In"}), [], SPACES),
        ["pass", "pass namespaces left out: a"],
    ),
    (
        installed.left_out(hooks(BUNDLE, {"key": "gpu", "operator": "Exists"}), [], SPACES),
        ["pass", "pass namespaces left out: a"],
    ),
    (
        installed.left_out(hooks(BUNDLE, {"key": "gpu", "operator": "DoesNotExist"}), [], SPACES),
        ["pass", "pass namespaces left out: b"],
    ),
    (installed.left_out(hooks(BUNDLE, gpu="yes"), [], SPACES), ["pass", "warn namespaces left out: a, b"]),
    (tried(stored()), ["pass an MPIJob in namespace team is changed"]),
    (tried({}, "denied"), ["fail an MPIJob in namespace team is refused: denied"]),
    (
        tried(stored(mutated=False)),
        ["fail an MPIJob in namespace team is not changed in a dry run: the webhook added nothing"],
    ),
    (
        tried(
            stored(mutated=False),
            wanted=False,
            namespace_object=namespace_object("team", **{INJECT: "false"}),
        ),
        ["warn an MPIJob in namespace team is not changed in a dry run: the webhook added nothing: "],
    ),
    (installed.placement(LEASE, NOW, **GATED), ["pass placement-1 leads"]),
    (
        installed.placement(None, NOW, **GATED),
        ["fail jobs wait for ultraserver-placement, which does not run"],
    ),
    (
        installed.placement(LEASE, NOW + timedelta(hours=1), **GATED),
        ["fail jobs wait for ultraserver-placement"],
    ),
    (
        installed.placement(None, NOW, is_used=False, has_kueue=True),
        ["pass whole-job admission is not in the rule table"],
    ),
    (
        installed.placement(None, NOW, is_used=False, has_kueue=False),
        ["warn whole-job admission is not in the rule table"],
    ),
    (installed.queues(is_used=True, has_kueue=True), []),
    (installed.queues(is_used=False, has_kueue=False), []),
    (
        installed.queues(is_used=True, has_kueue=False),
        ["fail a job that names a queue skips whole-job admission"],
    ),
    (
        installed.queues(is_used=False, has_kueue=True),
        ["warn Kueue is installed, but the rule table does not let jobs wait"],
    ),
    (installed.levels([], ["rack"]), []),
    (
        installed.levels(["rack", "block"], ["rack"]),
        [
            "warn the rule table uses Kueue's level block; no Topology has it, only rack: ",
            "pass the rule table uses Kueue's level rack",
        ],
    ),
    (
        installed.levels(["rack"], []),
        ["warn the rule table uses Kueue's level rack; no Topology has it, only none: "],
    ),
    (guard(policies(), bound(), {"op": True}), ["pass 3 policies are enforced"]),
    (guard(policies("other"), bound(), {"op": False}, placement=False), ["warn there is no guard"]),
    (guard(policies(ACCOUNT), bound(names=[ACCOUNT])), ["warn there is no guard"]),
    (guard(policies("other"), bound()), ["fail no policy limits what the account of ", "warn there is no"]),
    (guard(policies(ACCOUNT), bound("Warn", [ACCOUNT])), ["fail no policy limits", "warn there is no"]),
    (guard(policies(), bound("Warn"), placement=False), ["warn these warn only: "]),
    (
        guard(policies(*installed.POLICIES, ACCOUNT), [*bound("Warn"), *bound(names=[ACCOUNT])]),
        ["warn these"],
    ),
    (guard(policies(), bound(names=[POD_GUARD])), ["fail missing, or without a binding: "]),
    (guard(policies(POD_GUARD), bound()), ["fail missing, or without a binding: "]),
    (guard(policies(), bound(), {"op": False}), ["pass", "fail the guard refuses the pods of op"]),
    (
        guard(
            policies(*installed.POLICIES, installed.KINDS_POLICY),
            bound(names=[*installed.POLICIES, installed.KINDS_POLICY]),
        ),
        ["pass 4 policies are enforced"],
    ),
    (
        guard(policies(*installed.POLICIES, OLDER), bound(names=[*installed.POLICIES, OLDER])),
        ["pass", f"fail policies of an older release, to be deleted with their bindings: {OLDER}"],
    ),
]


def test_every_check_reports_its_failure() -> None:
    for lines, expected in JUDGED:
        entries = list(lines)
        message = [f"{line.status} {line.text}" for line in entries]
        assert len(message) == len(expected), message
        assert all(map(str.startswith, message, expected)), (message, expected)
        assert all(line.remedy and line.link for line in entries if line.status != "pass"), entries


def test_the_accounts_that_are_expected_are_those_that_the_chart_binds() -> None:
    guard = REPOSITORY / "manifests" / "chart" / "templates" / "guard.yaml"
    bound = re.findall(
        r"\{kind: ServiceAccount, name: (mpi-operator), namespace: ([a-z-]+)\}", guard.read_text("utf-8")
    )
    assert {
        f"{SERVICE}{namespace_object}:{name}" for name, namespace_object in bound
    } == cluster.BOUND_ACCOUNTS


def test_links_lead_into_the_documents() -> None:
    entries = [
        link
        for path in (REPOSITORY / "kubectl_ultraserver" / "check").glob("*.py")
        for link in re.findall(r'"([a-z-]+\.md(?:#[a-z-]+)?)"', path.read_text(encoding="utf-8"))
    ]
    assert len(set(entries)) > 10
    for link in entries:
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
    assert "[warn] kubernetes: not checked" in run("check", "--pre")[1]
