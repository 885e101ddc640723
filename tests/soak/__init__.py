"""Runs tests that take hours, use random seeds or need a busy machine. A release needs their record."""
