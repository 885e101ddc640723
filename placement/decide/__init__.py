"""What is to be done, decided from what was observed. Pure: no clock, no network."""
