"""Jobs that claim devices of the Neuron DRA driver, beside jobs of the device plugin."""
