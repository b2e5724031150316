"""The path network: scores an edge by the paths between its two ends."""
