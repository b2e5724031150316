"""The query language in a few lines: what a language model has to know to write its first query."""

LANGUAGE = """\
A query says which variables it asks for, then what has to hold:
  ?x, ?y : exists ?z . relation(?x, ?z) & other(?z, ?y)
Every variable is asked for (before the colon) or quantified (exists). & and, | or, !atom not, ?x != ?y different, \
?x in {a, b}, ?x.age > 30 an attribute, limit 5. A variable has to occur in an atom without !.
Names are exact: france, <New York> (any characters), "New York" (a label). Find them first; do not guess.
The same in SPARQL: SELECT ?x ?y WHERE { ?x :relation ?z . ?z :other ?y }"""
