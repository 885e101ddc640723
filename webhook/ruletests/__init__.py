"""Tests rule tables with cases in files. Each case has an object and the expected outcome."""
