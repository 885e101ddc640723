"""Whole-job admission on a real control plane."""
