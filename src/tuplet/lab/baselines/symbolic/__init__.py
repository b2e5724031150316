"""Baselines that search the truth table."""
