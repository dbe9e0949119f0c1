"""The method in a training loop: ADIW, the weights by index, the validation schedule, transforms and summaries."""
