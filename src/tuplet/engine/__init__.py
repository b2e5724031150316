"""Engines: from a query graph and truth values to ranked tuples."""
