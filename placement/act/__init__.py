"""What was decided, written to the API server, and told to people and Prometheus."""
