"""Tests of an installation from the manifests, on its own plane. The product's Pods run on real nodes."""
