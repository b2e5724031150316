"""One question, whatever the engine: from names to ids, limits, rankings, reasons, answers."""
