"""Tests of the test bed and of the test suite."""
