"""Answers reviews and health checks of the API server and the kubelet."""
