"""The rule table: what the packaged one does, how others are read, and what is refused."""
