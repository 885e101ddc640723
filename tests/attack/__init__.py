"""Attacks over loopback on the program as a user starts it; ``python -m tests.bench.attack`` for longer."""
