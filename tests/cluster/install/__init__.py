"""The whole installation from its manifests, on a control plane of its own; see ``tests.cluster.standin``."""
