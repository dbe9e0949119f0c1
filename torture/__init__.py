"""Long reliability checks: ``make torture`` runs them, and the tests run a short form of each."""
