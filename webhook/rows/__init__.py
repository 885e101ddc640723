"""The rows of the rule table: workloads, families, shapes, rules, policies, and placeholders."""
