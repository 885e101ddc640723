"""Clusters of several fleets: who is asked about, and who shares what."""
