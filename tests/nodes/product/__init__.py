"""The installed product and jobs that run, on the four real nodes of one UltraServer."""
