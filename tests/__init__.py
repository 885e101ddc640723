"""Tests. Most folders have the names of the packages that they test."""
