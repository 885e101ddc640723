"""Removes earlier additions from an object, and puts them back: the record, and a limit on the cost."""
