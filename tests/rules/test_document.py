"""The UltraServer document, term by term: its YAML, written out, is what a plain job becomes."""

from typing import Any

import pytest

from testbed.mpijob import IMAGE, WORKER, mpijob
from tests.helpers import load_text
from tests.rules.tables import HEAD, after, outcome, parsed, unrecorded
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

INIT_IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/ultraserver:init-container"
TABLE = load_text(f"{HEAD}extends: aws-document\nvalues: {{initImage: {INIT_IMAGE}}}\n", "t")

APART = """
    requiredDuringSchedulingIgnoredDuringExecution:
    - labelSelector:
        matchExpressions:
        - key: training.kubeflow.org/job-name
          operator: NotIn
          values:
          - train
        matchLabels:
          training.kubeflow.org/job-role: worker
      topologyKey: neuron.amazonaws.com/ultraserver-server-id-%d
"""
REQUIRED = f"""
  podAntiAffinity: {APART}
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - labelSelector:
        matchLabels:
          training.kubeflow.org/job-role: worker
          training.kubeflow.org/job-name: train
      topologyKey: neuron.amazonaws.com/ultraserver-server-id-%d
"""
PREFERRED = f"""
  podAntiAffinity: {APART}
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        labelSelector:
          matchLabels:
            training.kubeflow.org/job-role: worker
            training.kubeflow.org/job-name: train
        topologyKey: neuron.amazonaws.com/ultraserver-server-id-%d
"""
AFFINITY = {
    1: "",
    2: REQUIRED % (2, 2),
    4: REQUIRED % (4, 4),
    16: PREFERRED % (4, 4),
    8: PREFERRED % (4, 4),
    # Beyond the document: other even counts in the same manner, by pairs; odd counts alone.
    6: PREFERRED % (2, 2),
    10: PREFERRED % (2, 2),
    3: "",
    7: "",
}
NODE_CONFIG = {1: "1", 2: "2", 4: "4", 16: "4", 8: "4", 6: "2", 10: "2", 3: "1", 7: "1"}

LAUNCHER_SPEC = f"""
initContainers:
- name: wait-hostfilename
  image: {IMAGE}
  command:
  - bash
  - -cx
  - |
    if [[ $(cat /etc/mpi/discover_hosts.sh | wc -l) != 1 ]]; then
      date
      echo "Ready"
      cat /etc/mpi/discover_hosts.sh
    else
      date
      echo "not ready ..."
      sleep 10
      exit 1
    fi
    while read host; do
      while ! ssh $host echo $host; do
        date
        echo "Pod $host is not up ..."
        sleep 10
      done
      date
      echo "Pod $host is ready"
    done <<< "$(/etc/mpi/discover_hosts.sh)"
  resources: {{}}
  volumeMounts:
  - mountPath: /etc/mpi
    name: mpi-job-config
  - mountPath: /root/.ssh
    name: ssh-auth
- name: ultraserver-init-container
  image: {INIT_IMAGE}
  env:
  - name: NEURON_ULTRASERVER_NODE_CONFIG
    value: "NODE CONFIG"
  volumeMounts:
  - mountPath: /etc/mpi
    name: mpi-job-config
  - mountPath: /root/.ssh
    name: ssh-auth
  - mountPath: /root/ultraserver_init
    name: ultraserver-init
volumes:
- name: ultraserver-init
  emptyDir: {{}}
"""


def _worker_spec(workers: int) -> Any:
    spec = parsed("nodeSelector:\n  node.kubernetes.io/instance-type: trn2u.48xlarge\n")
    return spec | ({"affinity": parsed(AFFINITY[workers])} if AFFINITY[workers] else {})


def documented(workers: int) -> dict[str, Any]:
    """Returns a job as a user writes it who follows the document."""
    launcher = parsed(LAUNCHER_SPEC.replace("NODE CONFIG", NODE_CONFIG[workers]))
    return mpijob(workers, worker_spec=_worker_spec(workers), launcher_spec=launcher)


@pytest.mark.parametrize("workers", AFFINITY)
def test_a_plain_job_becomes_the_documents_yaml_and_nothing_else(workers: int) -> None:
    assert unrecorded(after(TABLE, mpijob(workers))) == documented(workers)


@pytest.mark.parametrize("workers", AFFINITY)
def test_the_documents_yaml_is_left_alone_without_a_warning(workers: int) -> None:
    found = outcome(TABLE, documented(workers))
    assert found.operations == ()
    assert [text for text in found.warnings if not text.startswith(f"{workers} nodes form no pairs")] == []


@pytest.mark.parametrize("workers", [2, 4, 16])
def test_the_packaged_table_adds_no_term_twice_to_the_documents_yaml(workers: int) -> None:
    found = outcome(load_default(), documented(workers))
    plain = after(load_default(), mpijob(workers))
    place = (*WORKER, "spec", "affinity")
    assert get(found.after, (*place, "podAffinity")) == get(plain, (*place, "podAffinity"))
    apart = (*place, "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    theirs = get(documented(workers), apart)
    assert get(found.after, apart) == [*theirs, *get(plain, apart)]


def test_the_packaged_table_keeps_the_documents_init_containers_and_says_so() -> None:
    found = outcome(load_default(), documented(4))
    names = [
        item["name"]
        for item in found.after["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["initContainers"]
    ]
    assert names == ["wait-hostfilename", "ultraserver-init-container"]
    assert ["[wait-hostfilename]" in text for text in found.warnings] == [True, False]
    assert ["[ultraserver-init-container]" in text for text in found.warnings] == [False, True]
    assert all(text.startswith("kept yours: ") for text in found.warnings)


def test_odd_counts_are_told_that_they_form_no_pairs() -> None:
    for workers in (3, 5, 7, 4097):
        (warning,) = outcome(TABLE, mpijob(workers)).warnings
        assert warning.startswith(f"{workers} nodes form no pairs: each works alone, with node config 1")
    for workers in (1, 2, 4, 6, 8, 4096):
        assert outcome(TABLE, mpijob(workers)).warnings == ()


def test_the_documents_environment_variable_in_the_job_says_the_same_as_the_annotation() -> None:
    env = [{"name": "NEURON_ULTRASERVER_NODE_CONFIG", "value": "2"}]
    job = put(mpijob(4), (*WORKER, "spec", "initContainers"), [{"name": "mine", "env": env}])
    assert outcome(TABLE, job).facts["nodeConfig"] == "2"
    # Where the value comes from elsewhere no one here knows it.
    del env[0]["value"]
    assert outcome(TABLE, job).facts["nodeConfig"] == "4"


def test_hyperpods_instance_type_is_kept_where_the_job_selects_it() -> None:
    selector = {"node.kubernetes.io/instance-type": "ml.trn2u.48xlarge"}
    job = mpijob(4, worker_spec={"nodeSelector": selector}, resource=None)
    found = outcome(TABLE, job)
    assert get(found.after, (*WORKER, "spec", "nodeSelector")) == selector
    assert found.warnings == ()
