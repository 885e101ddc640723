"""Tests of the guard on the real API server: which requests it refuses, and which it must permit."""
