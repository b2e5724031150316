"""Engines: each answers a bound query on a source; `tuplet.registry` knows them by name."""
