"""Writes the kubectl plugin as one file."""
