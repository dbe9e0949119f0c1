"""The method in a training loop: ADIW, weights by index, the stream of validation batches, transforms, summaries."""
