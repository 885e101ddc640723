"""The plugin as one file, with replacements for packages that have compiled parts."""
