"""Shows people and tools what the webhook would do to an object: a dry run of the engine."""
