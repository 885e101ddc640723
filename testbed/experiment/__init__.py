"""Runs jobs, with and without whole-job admission, and counts the jobs that are placed whole."""
