"""Training in several processes: collectives, and their trivial form for a single process."""
