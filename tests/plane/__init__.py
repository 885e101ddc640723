"""Tests that are judged by a real control plane."""
