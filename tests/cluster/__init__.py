"""A real control plane on loopback, and the tests that are judged by it."""
