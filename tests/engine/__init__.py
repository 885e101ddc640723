"""The engine, example by example and property by property."""
