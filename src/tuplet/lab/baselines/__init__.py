"""Other ways to answer, to be compared with: each one file, each a `Baseline` that ranks every variable on its own."""
