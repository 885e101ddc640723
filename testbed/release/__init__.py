"""Builds a release, and rebuilds the previous release for tests."""
