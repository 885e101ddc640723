"""Short tests of the test bed and of the suite itself."""
