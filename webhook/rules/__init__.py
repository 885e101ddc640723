"""Loads, checks, shows and converts rule tables; has the packaged table and the schema."""
