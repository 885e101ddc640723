"""What stands in for kubelet, container runtime and kube-proxy: the Pods of one namespace as processes.

A Pod that the scheduler has bound is started as its spec says: command, arguments, environment, Secrets,
ConfigMaps, token and empty directories mounted where it says (swapped by a link when they change, as the
kubelet does it), the user and group, no capabilities, a read-only root. Its readiness probe decides about
its condition ``Ready``, and its ``preStop`` pause and SIGTERM end it. The API server reaches it through the
Service's own cluster IP and certificate name.

What differs: there are no images, so a command finds its program in this checkout's environment; Pods share
the network of the machine, each with an address of its own on loopback, which it is told by an environment
variable, and which is in no EndpointSlice, because such addresses are not allowed there; network policies,
resource limits, seccomp and liveness probes have no effect; volumes are refreshed within a second, not a
minute.
"""
