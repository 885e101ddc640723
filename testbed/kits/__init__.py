"""Builds the programs of the control plane and of nodes, in fixed versions."""
