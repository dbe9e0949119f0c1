"""Integrations: one module per framework, which imports that framework."""
