"""Reading facts and attributes: files by their suffix, folders, data frames, tables, graphs of other libraries, tuples.

A reader is found by the suffix of a file, in the registry (`tuplet.settings`, kind "readers"). Another package adds one
with an entry point whose name is the suffix:

    [project.entry-points."tuplet.readers"]
    ".mine" = "my_package:read_mine"

It is a function, or a class whose instances can be called, that takes the path and the columns the user has named
(a mapping from head, relation, tail, truth, date to the name or the number of a column; None or
empty if none are named):

    def read_mine(path: Path, columns: Mapping[str, str | int] | None) -> Iterable[tuple[str, str, str]]:
        for line in path.read_text().splitlines():
            yield tuple(line.split(" -- "))

What it returns is anything that `tuplet.read` takes: an iterable of tuples (head, relation, tail, perhaps truth), an
Arrow table or a data frame with columns of these names, or the `FactColumns` that the readers here return. What cannot
be read is a `tuplet.errors.BadInput` with the path and, if there is one, the line.
"""
