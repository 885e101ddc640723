"""The attacks of ``tests/attack`` in their full length, as a table."""
