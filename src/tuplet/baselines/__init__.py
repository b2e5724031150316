"""Baselines: the published methods beside which ours are measured, behind the same engine protocol."""
