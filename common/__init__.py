"""Shared by several programs of this project, and independent of each of them."""
