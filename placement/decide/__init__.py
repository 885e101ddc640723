"""Computes decisions from what was observed. Pure: no clock, no network."""
