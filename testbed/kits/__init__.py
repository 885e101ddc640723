"""The control plane's programs: their versions and how they are built."""
