"""What is read of the API server and the rule table, with only what matters of it."""
