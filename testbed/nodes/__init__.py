"""Adds real nodes to a control plane. Kubelet, containerd, kube-proxy and CoreDNS run in namespaces."""
