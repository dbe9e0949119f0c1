"""Tables, figures and pages from the folders of runs and sweeps. Nothing here imports torch."""
