"""Long checks of what must not break: ``make torture``. The tests run a short form of each."""
