"""What a platform team adds by YAML alone: a shape, a rule, an instance type, a policy, a kind."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.cluster import jobs, nodes
from tests.cluster.jobs import template, without_record
from tests.helpers import mpijob
from webhook.engine import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.controlplane import ControlPlane
    from tests.cluster.kubectl import Kubectl, Object

TABLE = """
apiVersion: ultraserver-webhook.io/v1alpha1
kind: RuleTable
extends: default

candidates:
  instanceTypes: [trn2u.48xlarge, ml.trn2u.48xlarge, trn9u.96xlarge]

workloads:
  - name: neuronjob
    kinds: [example.com/v1/NeuronJob]
    groups: [{role: worker, template: /spec/pods, replicas: /spec/size, takesNodes: true}]

shapes:
  - name: trio
    workers: 3
    nodeConfig: 1
    topologyKey: neuron.amazonaws.com/ultraserver-server-id-4
    together: required
    apart: required
  - name: too-many
    workers: multiple of 100
    nodeConfig: 4
    deny: $(job.workers) workers are more than this cluster has; use 96 or fewer

rules:
  - name: efa
    reason: Workers of a trio talk over EFA.
    match: {role: worker, workload: mpijob, shape: {name: trio}}
    add:
      spec:
        tolerations:
          - {key: reserved-for, operator: Equal, value: trios}
        containers:
          - name: $(worker.container)
            env: [{name: FI_PROVIDER, value: efa}]

  - name: neuronjob-together
    reason: All workers of a NeuronJob on one UltraServer, by the webhook's own label.
    match: {role: worker, workload: neuronjob, shape: {together: required}}
    add:
      metadata:
        labels: {ultraserver-webhook.io/job: $(job.id)}
      spec:
        affinity:
          podAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              - labelSelector: {matchLabels: {ultraserver-webhook.io/job: $(job.id)}}
                topologyKey: $(shape.topologyKey)
"""
NEW_NEURONJOBS = {
    "apiGroups": ["example.com"],
    "apiVersions": ["v1"],
    "resources": ["neuronjobs"],
    "operations": ["CREATE"],
    "scope": "Namespaced",
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "neuronjobs.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "NeuronJob", "plural": "neuronjobs", "singular": "neuronjob"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


@contextlib.contextmanager
def neuronjobs(kubectl: Kubectl) -> Iterator[None]:
    """The kind NeuronJob, for as long as it is needed."""
    kubectl.create(CRD)
    try:
        kubectl.run("wait", "--for=condition=Established", "crd/neuronjobs.example.com", "--timeout=90s")
        yield
    finally:
        kubectl.run("delete", "crd", "neuronjobs.example.com", "--wait=false")


@pytest.fixture(scope="module")
def extended(control_plane: ControlPlane) -> Iterator[Kubectl]:
    """A namespace whose webhook has the extended table."""
    with (
        neuronjobs(control_plane.kubectl),
        jobs.second_webhook(control_plane, "extended", TABLE, [NEW_NEURONJOBS]) as inside,
    ):
        yield inside


@pytest.fixture
def cleared(extended: Kubectl) -> Iterator[Kubectl]:
    """The same, and without jobs after the test."""
    yield extended
    jobs.clear(extended)


def test_a_shape_and_a_rule_of_the_table_place_a_job(
    cleared: Kubectl, control_plane_nodes: dict[str, dict[str, str]]
) -> None:
    stored = cleared.apply(mpijob(3))
    worker = template(stored, "Worker")
    assert worker["spec"]["tolerations"] == [{"key": "reserved-for", "operator": "Equal", "value": "trios"}]
    (container,) = worker["spec"]["containers"]
    assert container["env"] == [{"name": "FI_PROVIDER", "value": "efa"}]
    assert set(worker["spec"]["affinity"]) == {"podAffinity", "podAntiAffinity", "nodeAffinity"}
    pods = cleared.wait_for(
        lambda found: sum(bool(pod["spec"].get("nodeName")) for pod in found["items"]) == 3,
        *("pods", "-l", f"{jobs.ROLE}=worker"),
    )["items"]
    servers = {control_plane_nodes[pod["spec"]["nodeName"]][nodes.SERVER_ID_4] for pod in pods}
    assert len(servers) == 1


def test_rows_that_the_table_does_not_name_are_the_packaged_ones(
    cleared: Kubectl, namespace: Kubectl, registered_webhook: object
) -> None:
    assert registered_webhook
    ours = template(cleared.create(mpijob(4), "--dry-run=server"), "Worker")
    packaged = template(namespace.create(mpijob(4), "--dry-run=server"), "Worker")
    swapped = jobs.text(without_record(ours)).replace(str(cleared.namespace), str(namespace.namespace))
    assert swapped == jobs.text(without_record(packaged))


def test_an_instance_type_of_the_table_makes_a_job_a_candidate(cleared: Kubectl) -> None:
    chosen = {"nodeSelector": {nodes.INSTANCE_TYPE: "trn9u.96xlarge"}}
    worker = template(
        cleared.create(mpijob(4, resource=None, worker_spec=chosen), "--dry-run=server"), "Worker"
    )
    assert worker["spec"]["nodeSelector"] == chosen["nodeSelector"]
    assert "podAffinity" in worker["spec"]["affinity"]


def test_a_shape_may_refuse_with_the_tables_own_words(cleared: Kubectl) -> None:
    done = cleared.run("create", "-f", "-", stdin=jobs.text(mpijob(100)), check=False)
    assert done.returncode == 1
    assert "denied the request: 100 workers are more than this cluster has; use 96 or fewer\n" in done.stderr


def test_a_kind_of_the_table_gets_its_terms(cleared: Kubectl) -> None:
    container = {"name": "main", "image": "example.invalid/main"}
    container |= {"resources": {"limits": {"aws.amazon.com/neuron": 16}}}
    job: Object = {
        "apiVersion": "example.com/v1",
        "kind": "NeuronJob",
        "metadata": {"name": "train"},
        "spec": {"size": 4, "pods": {"spec": {"containers": [container]}}},
    }
    stored = cleared.create(job, "--dry-run=server")["spec"]["pods"]
    value = f"{cleared.namespace}.train"
    assert stored["metadata"]["labels"] == {keys.JOB: value}
    assert stored["spec"]["nodeSelector"] == {nodes.INSTANCE_TYPE: nodes.TRN2U}
    affinity = stored["spec"]["affinity"]
    assert affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == [
        {"labelSelector": {"matchLabels": {keys.JOB: value}}, "topologyKey": nodes.SERVER_ID_4}
    ]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": nodes.SERVER_ID_4, "operator": "Exists"}]}
