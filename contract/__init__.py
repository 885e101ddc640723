"""The keys and the placement annotation, which webhook, placement and plugin share in stored objects.

All packages import this one, and it imports none of them.
"""
