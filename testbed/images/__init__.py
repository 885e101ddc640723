"""Builds images without a registry: the product's images, the image of a job, and their base."""
