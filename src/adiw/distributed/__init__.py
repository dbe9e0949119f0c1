"""Training in several processes: collectives, which do nothing for a single process."""
