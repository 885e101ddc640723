"""Tests of rules: cases in files, each an object and what is to become of it."""
