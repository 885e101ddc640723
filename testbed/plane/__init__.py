"""A real control plane on loopback, without nodes that run anything."""
