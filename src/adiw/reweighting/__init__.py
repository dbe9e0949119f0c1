"""The method in a training loop: ADIW, its state of weights, its validation stream, transforms and summaries."""
