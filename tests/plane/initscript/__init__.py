"""Tests of the init scripts with sshd and mpirun. Launcher and workers are namespaces of this machine."""
