"""Runs a real control plane on loopback, whose nodes exist only as objects."""
