"""The whole installation from its manifests, on a plane of its own; the product's Pods run on real nodes."""
