"""Starts control planes and real nodes, on which tests and people run the product."""
