"""The training loop: batches, one step for every method, evaluation, checkpoints."""
