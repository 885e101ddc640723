"""Attacks over loopback on the program as a user starts it. The long versions: ``python -m tests.bench.attack``."""
