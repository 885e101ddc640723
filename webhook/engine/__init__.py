"""Pure core: workloads, match, merge, evaluate, patch."""
