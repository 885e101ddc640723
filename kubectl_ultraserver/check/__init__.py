"""``kubectl ultraserver check``: whether a cluster is ready for an installation, and whether one works."""
