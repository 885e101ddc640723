"""Writes decisions to the API server, and reports them as Events and metrics."""
