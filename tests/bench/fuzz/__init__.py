"""Reviews near to real ones, and what must hold for each: ``python -m tests.bench.fuzz``."""
