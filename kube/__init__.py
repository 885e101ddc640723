"""Shared by the programs that use an API server: calls, versions, leader election, watches, the loop."""
