"""Query languages: text → `Query` → clauses. Knows no ids, no graph, no torch."""
