"""Kinds of job beside mpi-operator's, on a real API server, scheduler and controller manager."""
