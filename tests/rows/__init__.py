"""Tests of the types of the rule table's rows."""
