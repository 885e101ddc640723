"""Tests of jobs that name a queue, on a control plane with the real Kueue."""
