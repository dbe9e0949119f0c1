"""The method in a training loop: ADIW, the weights by index, the validation stream, transforms and summaries."""
