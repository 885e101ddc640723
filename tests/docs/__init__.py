"""Tests that the commands, outputs, examples and links in the documents are correct."""
