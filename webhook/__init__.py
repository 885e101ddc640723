"""Implements the admission server, previews, and rule tables."""
