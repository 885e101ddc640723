"""What a release is made of, and the one before it."""
