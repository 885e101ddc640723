"""Tests of the command ``rules test``."""
