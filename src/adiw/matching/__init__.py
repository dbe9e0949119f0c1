"""Pure tensor functions: matched batches and their groups, kernels, projections, limits on the weights."""
