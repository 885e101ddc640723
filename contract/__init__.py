"""What webhook, placement and plugin say to each other on what Kubernetes stores: the keys, and the place.

Everything imports it, and it imports nothing of this project.
"""
