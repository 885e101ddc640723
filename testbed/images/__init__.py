"""Builds images without a registry: those of the product, that of a job, and their base."""
