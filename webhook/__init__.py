"""The admission server, and the path of a review through it."""
