"""Kinds of job other than mpi-operator's, on a real API server, scheduler and controller manager."""
