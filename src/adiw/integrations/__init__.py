"""Integrations: one module per framework, imported only by its own users."""
