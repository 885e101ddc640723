"""The jobs of a trace in simulated time: they arrive, are decided about, run and leave."""
