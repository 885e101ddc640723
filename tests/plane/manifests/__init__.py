"""The manifests as kustomize builds them, without a cluster."""
