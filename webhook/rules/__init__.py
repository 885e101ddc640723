"""The rule table: the default rows, their schema, strict loading and lint."""
