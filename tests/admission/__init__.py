"""Tests of the admission endpoints."""
