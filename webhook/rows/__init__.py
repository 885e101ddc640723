"""The rows of the rule table: kinds, shapes, rules, and the placeholders of what they add."""
