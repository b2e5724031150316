"""How true is r(h, t)? Calibration, the sparse truth table, and rows on demand."""
