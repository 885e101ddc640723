"""Tests of the installed product with running jobs, on the four real nodes of one UltraServer."""
