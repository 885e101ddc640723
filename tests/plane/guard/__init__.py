"""The component ``guard`` on the real control plane: what it stops, and what it must permit."""
