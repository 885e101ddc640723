"""Functions that several programs of this project use."""
