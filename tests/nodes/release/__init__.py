"""Tests of releases that are installed only from their files, on nodes without their images."""
