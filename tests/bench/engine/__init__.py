"""What an evaluation costs, in one process."""
