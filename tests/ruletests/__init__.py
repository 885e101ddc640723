"""Tests of rule tests."""
