"""Builds a release, and the release before it."""
