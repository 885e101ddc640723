"""JSON objects as values: reading, changing, merging and patching them, and the record of what was merged."""
