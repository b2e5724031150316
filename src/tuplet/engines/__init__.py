"""Ways to answer a question."""
