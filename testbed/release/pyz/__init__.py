"""The plugin as one file, and what stands in it for packages that have compiled parts."""
