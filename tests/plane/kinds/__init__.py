"""Tests of kinds of job other than mpi-operator's, with a real API server, scheduler and controllers."""
