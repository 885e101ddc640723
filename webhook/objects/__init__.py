"""JSON objects as values: reading and changing them, what their lists are, merging, and the patch."""
