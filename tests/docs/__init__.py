"""The documents hold what they say: commands are run, outputs compared, examples loaded, links followed."""
