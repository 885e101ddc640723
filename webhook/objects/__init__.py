"""Reads, changes, merges and patches JSON objects, and records what was merged into them."""
