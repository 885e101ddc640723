"""``kubectl ultraserver``: whether a job is placed whole, what it waits for, and who holds UltraServers."""
