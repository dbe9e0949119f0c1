"""Reweighting where people already train: Lightning and Hugging Face. Each module needs its own extra."""
