"""Reads the API server's objects and the rule table, and keeps only what a decision needs."""
