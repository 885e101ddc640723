"""Attacks: on the program as a user starts it, and by reviews that are nearly right."""
