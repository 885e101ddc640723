"""Tests of whole-job admission on a real control plane."""
