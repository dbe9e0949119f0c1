"""Where people already train: one module for each framework, none imported until it is asked for."""
