"""Calls, watches, leader election and the loop of the programs that use an API server."""
