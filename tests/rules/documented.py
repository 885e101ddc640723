"""Creates MPIJobs with the YAML of AWS's UltraServer document."""

from typing import Any

from testbed.mpijob import IMAGE, mpijob
from tests.rules.tables import parse_yaml

INIT_IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/ultraserver:init-container"

ANTI_AFFINITY = """
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
REQUIRED_AFFINITY = f"""
  podAntiAffinity: {ANTI_AFFINITY}
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - labelSelector:
        matchLabels:
          training.kubeflow.org/job-role: worker
          training.kubeflow.org/job-name: train
      topologyKey: neuron.amazonaws.com/ultraserver-server-id-%d
"""
PREFERRED_AFFINITY = f"""
  podAntiAffinity: {ANTI_AFFINITY}
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
    2: REQUIRED_AFFINITY % (2, 2),
    4: REQUIRED_AFFINITY % (4, 4),
    16: PREFERRED_AFFINITY % (4, 4),
    8: PREFERRED_AFFINITY % (4, 4),
    # Not in the document: nodes of other even counts work in pairs, and nodes of odd counts work alone.
    6: PREFERRED_AFFINITY % (2, 2),
    10: PREFERRED_AFFINITY % (2, 2),
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
    spec = parse_yaml("nodeSelector:\n  node.kubernetes.io/instance-type: trn2u.48xlarge\n")
    return spec | ({"affinity": parse_yaml(AFFINITY[workers])} if AFFINITY[workers] else {})


def documented_job(workers: int) -> dict[str, Any]:
    """Returns an MPIJob as a user who follows the document writes it."""
    launcher = parse_yaml(LAUNCHER_SPEC.replace("NODE CONFIG", NODE_CONFIG[workers]))
    return mpijob(workers, worker_spec=_worker_spec(workers), launcher_spec=launcher)
