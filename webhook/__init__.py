"""The admission server."""
