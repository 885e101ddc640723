"""The chart as Helm renders it, without a cluster, and as it installs it."""
