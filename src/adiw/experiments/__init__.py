"""Runs and sweeps: their settings, training, folders and records."""
