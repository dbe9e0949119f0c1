"""Pure tensor functions: two matched batches and their groups, kernels, projections, limits on weights."""
