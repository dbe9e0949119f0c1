"""What several training processes share; a single process shares nothing."""
