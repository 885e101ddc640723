"""Configuration files of containerd, kubelet, kube-proxy and CoreDNS. JSON where YAML is read."""

import json
import shutil
from pathlib import Path

from testbed.nodes.addresses import Place
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
  # Without CAP_SYS_RESOURCE it cannot be lowered, and runc only says "can't get final child's PID from pipe".
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
    """Returns the configuration of containerd, whose Pods have the networks of a folder."""
    runc = shutil.which("runc", path=PATH)
    return CONTAINERD.format(socket=SOCKET, pause=PAUSE, cni=CNI, networks=networks, runc=runc)


def pod_network(place: Place, data: Path) -> str:
    """Returns a bridge on which every Pod of a node gets an address."""
    addresses = {
        "type": "host-local",
        "dataDir": str(data),
        "ranges": [[{"subnet": place.pods}]],
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
    # Images cannot be pulled again.
    "imageMinimumGCAge": "24h",
    "imageGCHighThresholdPercent": 100,
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    # A sign of life every 2.5 s, of which the controller manager misses 20 s; by default 10 s and 50 s.
    "nodeLeaseDurationSeconds": 10,
    # A changed Secret or ConfigMap is in its volume after two seconds instead of a minute.
    "syncFrequency": "1s",
    "configMapAndSecretChangeDetectionStrategy": "Watch",
}
"""What is the same for every kubelet."""


def kubelet(place: Place, cgroup: str, credentials: Path, resolv: Path) -> str:
    """Returns the configuration of a kubelet.

    Args:
        place: the node's.
        cgroup: the control group that its Pods are below.
        credentials: the folder with ``ca.crt`` and ``kubelet-<node>.{crt,key}``.
        resolv: an empty file: nothing outside can be asked for names.
    """
    files = str(credentials / f"kubelet-{place.name}")
    own = {
        "cgroupRoot": cgroup,
        "address": place.address,
        "healthzBindAddress": place.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(credentials / "ca.crt")},
        },
        "tlsCertFile": f"{files}.crt",
        "tlsPrivateKeyFile": f"{files}.key",
        "clusterDNS": [place.gateway],
        "resolvConf": str(resolv),
    }
    return json.dumps(KUBELET | own)


def proxy(kubeconfig: Path, pods: str) -> str:
    """Returns the configuration of kube-proxy."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "mode": "nftables",
        "oomScoreAdj": 0,
        "clusterCIDR": pods,
        # Anything else would be written to the machine's own settings.
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
