"""What the programs that talk to an API server share: calls, versions, election, watches, the loop."""
