"""The init scripts in a fleet of sshd: a launcher and workers in namespaces of this machine."""
