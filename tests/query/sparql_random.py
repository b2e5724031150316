"""Random RDF files, and random SPARQL over them: paths, attributes, filters, VALUES, ?p, OPTIONAL, COUNT, ASK.

What means something else here on purpose is left out: numbers that are equal as values but not as terms (2 and 2.0),
a plain text compared with the same text in a language, tags in counts, STR of a blank node, where in an order empty
cells stand.
"""

from __future__ import annotations

from random import Random

HEAD = (
    "PREFIX : <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
    "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
)
ENTITIES = [f":e{i}" for i in range(5)]
BLANK = ["_:b0", "_:b1"]
TYPES = [":T", ":U"]
RELATIONS = [":r", ":s", ":t"]
VARIABLES = ["?x", "?y", "?z"]
VALUES = {
    ":age": ["20", "30", "31", "40"],
    ":size": ["1.5", "2.25", "4.0", "2", "7", "8.5e0"],  # none is equal to another: here 2 and 2.0 are one value
    ":name": ['"ann"', '"bob"', '"anton"', '"Bea"'],
    ":born": [f'"19{year}-05-01"^^xsd:date' for year in (70, 80, 90)],
    ":ok": ["true", "false"],
    ":seen": [f'"1990-05-01T1{hour}:00:00Z"^^xsd:dateTime' for hour in (0, 2, 4)],
    ":title": ['"cat"', '"chat"@fr', '"chat"@en', '"Katze"@de', '"tom"@en-GB'],
    "rdfs:label": ['"E"', '"eins"@de', '"one"@en'],
}
TAGGED = (":title", "rdfs:label")  # texts with languages: their tags are not shown
SIGNS = ["=", "!=", "<", "<=", ">", ">="]


def random_turtle(random: Random, blank: bool) -> str:
    """A file, with blank nodes or without."""
    entities = ENTITIES + BLANK * blank
    lines = {
        f"{random.choice(entities)} {random.choice(RELATIONS)} {random.choice(entities)} ."
        for _ in range(random.randint(12, 30))
    }
    lines |= {f"{entity} a {random.choice(TYPES)} ." for entity in entities if random.random() < 0.6}
    lines |= {f"{ENTITIES[0]} a {name} ." for name in TYPES}
    for name, values in VALUES.items():
        for entity in entities:
            lines |= {f"{entity} {name} {value} ." for value in random.sample(values, random.choice([0, 1, 1, 2]))}
        lines.add(f"{ENTITIES[0]} {name} {values[0]} .")  # all of them are in the file
    lines |= {f"{ENTITIES[0]} {relation} {ENTITIES[1]} ." for relation in RELATIONS}
    first = [f"{BLANK[0]} {RELATIONS[0]} {BLANK[1]} ."] * blank  # they get their names in this order
    return HEAD.replace("PREFIX", "@prefix").replace("> ", "> .\n") + "\n".join([*first, *sorted(lines)])


class RandomQuery:
    """One query; `ordered` if its rows have an order, `distinct` if SPARQL would count rows twice without it."""

    def __init__(self, random: Random, blank: bool) -> None:
        self.random, self.blank = random, blank
        self.values: dict[str, str] = {}  # the attribute of each variable of values
        self.entities: set[str] = set()
        self.relations: set[str] = set()
        self.optional: set[str] = set()
        self.distinct = False
        self.labels = 0

    def text(self) -> str:
        random = self.random
        body = self.group()
        form = random.random()
        known = sorted(self.entities | set(self.values) | self.relations | self.optional)
        if form < 0.1 or not known:
            return f"{HEAD}ASK {body}"
        tagged = {v for v, name in self.values.items() if name in TAGGED}
        if form < 0.2 and not tagged:
            counted = random.choice(known) if self.distinct or random.random() < 0.5 else None
            what = f"DISTINCT {counted}" if counted else "*"
            if counted not in self.optional and (counted or not self.optional):
                return f"{HEAD}SELECT (COUNT({what}) AS ?n) {body}"
        chosen = random.sample(known, random.randint(1, min(3, len(known))))
        order = ""
        unordered = self.optional | self.relations | tagged
        if form > 0.7 and not set(chosen) & unordered:
            keys = " ".join(f"DESC({name})" if random.random() < 0.3 else name for name in chosen)
            order = f" ORDER BY {keys} LIMIT {random.randint(1, 4)} OFFSET {random.randint(0, 3)}"
        return f"{HEAD}SELECT DISTINCT {' '.join(chosen)} {body}{order}"

    def group(self) -> str:
        random = self.random
        parts = [self.triple() for _ in range(random.choice([0, 1, 1, 2]))]
        for _ in range(random.choice([0, 1, 1, 2])):
            parts.append(self.value_triple())
        if not parts:
            parts.append(self.triple())
        if random.random() < 0.15:
            parts.append(self.any_triple())
        if random.random() < 0.2:
            parts.append(self.given())
        if random.random() < 0.15:
            self.distinct = True
            one, other = self.triple(), self.triple()
            common = self.entity()
            parts.append(f"{{ {common} :r {common} . {one} }} UNION {{ {common} :s {common} . {other} }}")
            self.entities &= {part for text in parts[:-1] for part in text.split()} | {common}
        for _ in range(random.choice([0, 1, 1, 2])):
            parts.append(self.filter())
        if random.random() < 0.15 and self.entities:
            name = random.choice(list(VALUES))
            self.optional.add("?o")
            parts.append(f"OPTIONAL {{ {random.choice(sorted(self.entities))} {name} ?o }}")
        return "{ " + " ".join(parts) + " }"

    # --- patterns ----------------------------------------------------------------------------------------------------

    def entity(self) -> str:
        if self.random.random() < 0.88:
            name = self.random.choice(VARIABLES)
            self.entities.add(name)
            return name
        return self.random.choice(ENTITIES)

    def triple(self) -> str:
        random = self.random
        if random.random() < 0.15:
            return f"{self.entity()} a {self.entity() if random.random() < 0.3 else random.choice(TYPES)} ."
        if random.random() < 0.1:
            self.distinct = True
            self.labels += 1
            node = f"_:v{self.labels}"
            one, other = random.choice(RELATIONS), random.choice(RELATIONS)
            return f"{self.entity()} {one} {node} . {node} {other} {self.entity()} ."
        if random.random() < 0.15:
            self.distinct = True
            return f"{self.entity()} {random.choice(RELATIONS)} [ {random.choice(RELATIONS)} {self.entity()} ] ."
        return f"{self.entity()} {self.path()} {self.entity()} ."

    def path(self) -> str:
        random = self.random
        one, other, third = (random.choice(RELATIONS) for _ in range(3))
        kind = random.random()
        if kind < 0.7:
            return one
        self.distinct = True
        return random.choice([f"{one}/{other}", f"^{one}", f"{one}|{other}", f"^{one}/({other}|^{third})"])

    def value_triple(self) -> str:
        random = self.random
        name = random.choice(list(VALUES))
        if random.random() < 0.2:
            return f"{self.entity()} {name} {random.choice(VALUES[name])} ."
        variable = random.choice([v for v in ("?a", "?b", "?c") if self.values.get(v, name) == name] or ["?d"])
        if self.values.get(variable, name) != name:
            return self.triple()
        self.values[variable] = name
        return f"{self.entity()} {name} {variable} ."

    def any_triple(self) -> str:
        self.relations.add("?p")
        end = self.random.choice(["?any", "?any", self.random.choice(ENTITIES), *sorted(self.entities)])
        if end == "?any":
            self.optional.add(end)  # an entity or a value: it is shown, and nothing else
        return f"{self.entity()} ?p {end} ."

    def given(self) -> str:
        random = self.random
        if self.values and random.random() < 0.4:
            variable = random.choice(sorted(self.values))
            return f"VALUES {variable} {{ {' '.join(random.sample(VALUES[self.values[variable]], 2))} }}"
        names = sorted(self.entities)
        if len(names) > 1 and random.random() < 0.5:
            pair = random.sample(names, 2)
            rows = " ".join(f"({random.choice(ENTITIES)} {random.choice(ENTITIES)})" for _ in range(3))
            self.distinct = True
            return f"VALUES ({' '.join(pair)}) {{ {rows} }}"
        if not names:
            return ""
        return f"VALUES {random.choice(names)} {{ {' '.join(random.sample(ENTITIES, 2))} }}"

    # --- filters -----------------------------------------------------------------------------------------------------

    def filter(self) -> str:
        random = self.random
        if self.entities and random.random() < 0.2:
            return self.missing()
        return f"FILTER({self.expression(2)})"

    def missing(self) -> str:
        random = self.random
        who = random.choice(sorted(self.entities))
        if random.random() < 0.3:
            return f"FILTER NOT EXISTS {{ {who} {random.choice(list(VALUES))} ?none }}"
        if random.random() < 0.3:
            name = random.choice(list(VALUES))
            return f"FILTER NOT EXISTS {{ {who} {name} {random.choice(VALUES[name])} }}"
        other = random.choice([*sorted(self.entities), *ENTITIES[:2]])
        word = random.choice(["NOT EXISTS", "EXISTS"])
        return f"FILTER {word} {{ {who} {random.choice(RELATIONS)} {other} }}"

    def expression(self, depth: int) -> str:
        random = self.random
        kind = random.random() if depth else 1.0
        if kind < 0.15:
            return f"{self.expression(depth - 1)} && {self.expression(depth - 1)}"
        if kind < 0.3:
            return f"({self.expression(depth - 1)} || {self.expression(depth - 1)})"
        if kind < 0.4:
            return f"!({self.expression(depth - 1)})"
        return self.comparison()

    def comparison(self) -> str:
        random = self.random
        if not self.values or random.random() < 0.3:
            names = sorted(self.entities)
            if self.relations and random.random() < 0.5:
                return f"?p {random.choice(['=', '!='])} {random.choice([*RELATIONS, ':age'])}"
            if not names:
                return ":e0 = :e0"
            if random.random() < 0.3:
                return f"{random.choice(names)} {random.choice(['IN', 'NOT IN'])} (:e0, :e2, :e4)"
            if random.random() < 0.2 and not self.blank:  # of a blank node, STR is an error there and a name here
                return f'STRENDS(STR({random.choice(names)}), "{random.randint(0, 4)}")'
            other = random.choice([*names, *ENTITIES])
            return f"{random.choice(names)} {random.choice(['=', '!='])} {other}"
        variable = random.choice(sorted(self.values))
        name = self.values[variable]
        value = random.choice(VALUES[name])
        if name == ":name" and random.random() < 0.6:
            return random.choice(
                [
                    f'CONTAINS({variable}, "an")',
                    f'STRSTARTS({variable}, "a")',
                    f'STRENDS({variable}, "b")',
                    f'regex({variable}, "^b", "i")',
                    f'LANG({variable}) = ""',
                ]
            )
        if name in TAGGED:
            return random.choice(
                [
                    f"{variable} {random.choice(['=', '!='])} {value}",
                    f"{variable} IN ({', '.join(random.sample(VALUES[name], 2))})",
                    f'LANG({variable}) {random.choice(["=", "!="])} "en"',
                    f'langMatches(LANG({variable}), "{random.choice(["en", "*", "de"])}")',
                    f'regex({variable}, "a")',
                    f'STRSTARTS(STR({variable}), "c")',
                ]
            )
        same = [other for other, attribute in self.values.items() if attribute == name and other != variable]
        if same and random.random() < 0.4:
            return f"{variable} {random.choice(SIGNS)} {random.choice(same)}"
        if name == ":ok":
            return f"{variable} {random.choice(['=', '!='])} {value}"
        if random.random() < 0.25:
            return f"{variable} {random.choice(['IN', 'NOT IN'])} ({', '.join(random.sample(VALUES[name], 2))})"
        return f"{variable} {random.choice(SIGNS)} {value}"
