"""The admission server, and the way of a review through it."""
