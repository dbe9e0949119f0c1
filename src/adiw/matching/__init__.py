"""Pure tensor functions: the two batches and their groups, kernels, projections, limits on weights."""
