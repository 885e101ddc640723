"""``kubectl ultraserver``: is a job placed whole, what does it wait for, and who is on which UltraServer."""
