"""Tests of the manifests that need no Helm."""
