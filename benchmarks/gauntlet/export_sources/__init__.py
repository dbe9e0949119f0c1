"""Raw data of the second confirmation half, made from what is installed, as plain files that its tasks read."""
