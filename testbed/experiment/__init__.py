"""The placement experiment: jobs one by one or in a burst, with and without whole-job admission."""
