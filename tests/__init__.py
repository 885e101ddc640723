"""Tests, laid out as the mirror of the packages."""
