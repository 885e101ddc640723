"""Whole-job admission on a real control plane, beside what there is without it."""
