"""``kubectl ultraserver check``: checks a cluster before an installation, and the installation."""
