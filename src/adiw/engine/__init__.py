"""The training loop of the command: one step, epochs, evaluation, checkpoints, CUDA graphs, torchrun."""
