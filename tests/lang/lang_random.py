"""Random texts: SPARQL of the supported subset (for rdflib and Oxigraph to judge) and logic text."""

from __future__ import annotations

from random import Random

PREFIX = "http://example.org/"
ENTITIES = [f"e{i}" for i in range(4)]
RELATIONS = [f"r{i}" for i in range(3)]
VARIABLES = ["x", "y", "z", "w"]


def random_facts(random: Random) -> set[tuple[str, str, str]]:
    def pick(names: list[str]) -> str:
        return PREFIX + random.choice(names)

    return {(pick(ENTITIES), pick(RELATIONS), pick(ENTITIES)) for _ in range(random.randint(6, 16))}


def random_sparql(random: Random) -> str:
    free = random.sample(VARIABLES[:3], random.randint(1, 2))
    selected = "*" if random.random() < 0.1 else " ".join(f"?{name}" for name in free)
    distinct = random.choice(["", "DISTINCT "])
    return f"PREFIX : <{PREFIX}> SELECT {distinct}{selected} WHERE {_group(random, 2)}"


def _group(random: Random, depth: int) -> str:
    parts = [_triples(random) for _ in range(random.randint(1, 3))]
    if depth and random.random() < 0.5:
        parts.append(" UNION ".join(_group(random, depth - 1) for _ in range(random.randint(1, 3))))
    if random.random() < 0.4:
        parts.append(f"FILTER NOT EXISTS {{ {_term(random)} :{random.choice(RELATIONS)} {_term(random)} }}")
    if random.random() < 0.3:
        parts.append(f"FILTER(?{random.choice(VARIABLES)} != {_term(random)})")
    random.shuffle(parts)
    return "{ " + " ".join(parts) + " }"


def _triples(random: Random) -> str:
    verbs = " ; ".join(
        f":{random.choice(RELATIONS)} " + " , ".join(_term(random) for _ in range(random.choice([1, 1, 1, 2])))
        for _ in range(random.choice([1, 1, 1, 2]))
    )
    return f"{_term(random)} {verbs} ."


def _term(random: Random) -> str:
    return f"?{random.choice(VARIABLES)}" if random.random() < 0.8 else f":{random.choice(ENTITIES)}"


def random_logic(random: Random) -> str:
    free = random.sample(VARIABLES[:3], random.randint(1, 2))
    return ", ".join(f"?{v}" for v in free) + " : " + _formula(random, 3, free, False)


def _formula(random: Random, depth: int, scope: list[str], negative: bool) -> str:
    kind = random.random() if depth else 1.0
    if kind < 0.3:
        return " & ".join(f"({_formula(random, depth - 1, scope, negative)})" for _ in range(random.randint(2, 3)))
    if kind < 0.45:
        return " | ".join(f"({_formula(random, depth - 1, scope, negative)})" for _ in range(2))
    if kind < 0.55:
        return f"!({_formula(random, depth - 1, scope, not negative)})"
    if kind < 0.75 and not negative:
        name = random.choice(VARIABLES)
        return f"exists ?{name} . {_atom(random, [name])} & ({_formula(random, depth - 1, [*scope, name], negative)})"
    if kind < 0.85 and not negative:
        return f"{_atom(random, scope)} & ?{random.choice(scope)} != {_logic_term(random, scope)}"
    return " & ".join(_atom(random, scope) for _ in range(random.randint(1, 2)))


def _atom(random: Random, scope: list[str]) -> str:
    terms = [_logic_term(random, scope), f"?{random.choice(scope)}"]
    random.shuffle(terms)
    return f"<{PREFIX}{random.choice(RELATIONS)}>({terms[0]}, {terms[1]})"


def _logic_term(random: Random, scope: list[str]) -> str:
    return f"?{random.choice(scope)}" if random.random() < 0.7 else f"<{PREFIX}{random.choice(ENTITIES)}>"
