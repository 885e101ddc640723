"""Returns configuration files of containerd, kubelet, kube-proxy and CoreDNS, as JSON instead of YAML."""

import json
import shutil
from pathlib import Path

from testbed.nodes.addresses import Host
from testbed.nodes.namespaces import CNI, PATH

PAUSE = "localhost/pause:1"
SOCKET = "/run/containerd/containerd.sock"
CLUSTER_DOMAIN = "cluster.local"

CONTAINERD = """\
version = 3
root = '/var/lib/containerd'
state = '/run/containerd'
[grpc]
  address = '{socket}'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE, runc cannot lower oom_score_adj: "can't get final child's PID from pipe".
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{cni}']
    conf_dir = '{networks}'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '{runc}'
      SystemdCgroup = false
"""


def containerd(networks: Path) -> str:
    """Returns the configuration of containerd. ``networks`` is the folder of the CNI configuration."""
    runc = shutil.which("runc", path=PATH)
    return CONTAINERD.format(socket=SOCKET, pause=PAUSE, cni=CNI, networks=networks, runc=runc)


def pod_network(host: Host, data: Path) -> str:
    """Returns the CNI configuration of a node's Pods: a bridge, with the used addresses in ``data``."""
    addresses = {
        "type": "host-local",
        "dataDir": str(data),
        "ranges": [[{"subnet": host.pod_subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]})


KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "failCgroupV1": False,
    "cgroupDriver": "cgroupfs",
    "authorization": {"mode": "Webhook"},
    "clusterDomain": CLUSTER_DOMAIN,
    "containerRuntimeEndpoint": f"unix://{SOCKET}",
    "failSwapOn": False,
    "oomScoreAdj": 0,
    "makeIPTablesUtilChains": False,
    # The kubelet must not remove images, because they cannot be pulled again.
    "imageMinimumGCAge": "24h",
    "imageGCHighThresholdPercent": 100,
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    # The kubelet renews its Lease every 2.5 s, not 10 s. After 20 s without a renewal, the node is not ready.
    "nodeLeaseDurationSeconds": 10,
    # A changed Secret or ConfigMap reaches its volume after two seconds, not after a minute.
    "syncFrequency": "1s",
    "configMapAndSecretChangeDetectionStrategy": "Watch",
}
"""The settings that all kubelets share."""


def kubelet(host: Host, cgroup: str, credentials: Path, resolv: Path) -> str:
    """Returns the configuration of a kubelet.

    Args:
        host: The node's name and addresses.
        cgroup: The control group of the node's Pods.
        credentials: The folder with ``ca.crt`` and ``kubelet-<node>.{crt,key}``.
        resolv: An empty file, because the node can reach no other name server.
    """
    files = str(credentials / f"kubelet-{host.name}")
    node_settings = {
        "cgroupRoot": cgroup,
        "address": host.address,
        "healthzBindAddress": host.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(credentials / "ca.crt")},
        },
        "tlsCertFile": f"{files}.crt",
        "tlsPrivateKeyFile": f"{files}.key",
        "clusterDNS": [host.gateway],
        "resolvConf": str(resolv),
    }
    return json.dumps(KUBELET | node_settings)


def proxy(kubeconfig: Path, pods: str) -> str:
    """Returns the configuration of kube-proxy."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "mode": "nftables",
        "oomScoreAdj": 0,
        "clusterCIDR": pods,
        # With other values, kube-proxy would change the machine's settings.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return json.dumps(config)


def dns(kubeconfig: Path, address: str) -> str:
    """Returns the configuration of CoreDNS."""
    return f"""\
.:53 {{
  bind {address}
  errors
  kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
    kubeconfig {kubeconfig}
    pods insecure
    ttl 1
  }}
}}
"""
