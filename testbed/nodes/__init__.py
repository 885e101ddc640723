"""Real nodes under the control plane: kubelet, containerd, kube-proxy, CoreDNS, all in namespaces."""
