"""Previews: a dry run of the cluster's engine, for people and tools."""
