"""What to run, running it, and what is kept of it."""
