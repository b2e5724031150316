"""Baselines that are trained: query models, their trainer and their files."""
