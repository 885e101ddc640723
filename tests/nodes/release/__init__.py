"""Releases, installed from their files alone on nodes that have none of their images."""
