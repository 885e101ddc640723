"""Tests on clusters with several families of nodes: what the webhook receives, and which Pods share nodes."""
