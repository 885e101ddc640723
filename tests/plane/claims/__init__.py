"""Tests of jobs that claim devices of the Neuron DRA driver, next to jobs of the device plugin."""
