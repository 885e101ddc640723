"""JSON objects as values: reading and changing them, kinds of list, merging fragments, and the patch."""
