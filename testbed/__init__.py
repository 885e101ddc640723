"""A control plane, real nodes and what runs on them, to try the product on: `make cluster`, `make demo`."""
