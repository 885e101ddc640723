"""What every program of this project has in common, and knows none of them."""
