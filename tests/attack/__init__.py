"""Attacks on the program as a user starts it, and reviews that are almost valid."""
