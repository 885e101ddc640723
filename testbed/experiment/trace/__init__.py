"""Simulates the jobs of a trace: they arrive, wait until a policy starts them, run and end."""
