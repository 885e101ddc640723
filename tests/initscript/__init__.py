"""Tests of the text of the init scripts. ``tests/plane/initscript`` runs the scripts."""
