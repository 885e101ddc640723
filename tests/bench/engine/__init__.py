"""Measures the cost of one evaluation, in one process."""
