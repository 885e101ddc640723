"""Tests of the packaged rule table, of loading other tables, and of the problems that loading reports."""
