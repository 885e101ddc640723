"""Dry run of the engine the cluster uses."""
