"""tuplet: ask incomplete knowledge graphs for tuples."""

__version__ = "0.1.0"
