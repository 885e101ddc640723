"""Tests of rules: cases in files, each with an object and the expected outcome."""
