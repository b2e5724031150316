"""Predictions for entities that came after a store was made: rows of a network that needs no training, calibrated."""
