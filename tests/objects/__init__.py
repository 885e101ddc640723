"""Tests of the messages about objects. tests/engine has the tests of the other modules."""
