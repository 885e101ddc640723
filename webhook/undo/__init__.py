"""Taking back what was added to an object, and putting it back: the record, and what that may cost."""
