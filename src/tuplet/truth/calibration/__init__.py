"""The learned calibration: features, trees, fit, reliability."""
