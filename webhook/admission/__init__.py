"""The endpoints that the API server calls: reviews, their handlers, and health."""
