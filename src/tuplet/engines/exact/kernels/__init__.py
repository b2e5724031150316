"""Compiled inner loops of the exact engine: rows, messages, point look-ups, the search itself."""
