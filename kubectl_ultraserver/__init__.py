"""``kubectl ultraserver``: whether a job is placed whole or waits, and which jobs hold UltraServers."""
