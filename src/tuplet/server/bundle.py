"""The modules of the page as one: a page of thirty small files is written in pieces and fetched at once.

Every module becomes a block, in an order in which each comes after those it imports; what it exports is an object that
the others take apart. Only the forms of `import` and `export` that the page uses are understood, any other is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

_IMPORT = re.compile(r'^import\s+(?:\{([^}]*)\}\s+from\s+)?"\./([\w.]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+((?:async\s+)?function|const|class)\s+([\w$]+)", re.MULTILINE)
_REMARK = re.compile(r"^[ ]*(?://.*|/\*\*[\s\S]*?\*/)\n", re.MULTILINE)  # whole lines: for who reads the files
_OTHER = re.compile(r"^(?:import\b(?!\.)|export\b).*$", re.MULTILINE)


def bundle(modules: Mapping[str, str], first: str) -> str:
    """The text of a module that does what the first one does.

    >>> files = {"page.js": 'import { a as b } from "./a.js";\\ndocument.title = b;', "a.js": 'export const a = "A";'}
    >>> print(bundle(files, "page.js"))
    // a.js
    const $a_js = {}; {
    const a = "A";
    Object.assign($a_js, { a });
    }
    // page.js
    const $page_js = {}; {
    const { a: b } = $a_js;
    document.title = b;
    Object.assign($page_js, {  });
    }
    <BLANKLINE>
    """
    needed = {first: _imported(modules, first)}
    waiting = list(needed[first])
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = _imported(modules, name)
            waiting += needed[name]
    try:
        order = list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        raise ValueError(f"modules of the page import each other: {error.args[1]}") from None
    return "".join(_block(name, modules[name]) for name in order)


def _imported(modules: Mapping[str, str], name: str) -> list[str]:
    found = [match[2] for match in _IMPORT.finditer(modules[name])]
    missing = [other for other in found if other not in modules]
    if missing:
        raise ValueError(f"{name} imports {missing[0]}, which is not there")
    return found


def _block(name: str, text: str) -> str:
    def taken(match: re.Match[str]) -> str:
        if match[1] is None:
            return ""  # for what it does, not for what it exports
        return f"const {{{match[1].replace(' as ', ': ')}}} = {_object(match[2])};"

    exported = [match[2] for match in _EXPORT.finditer(text)]
    body = _REMARK.sub("", _EXPORT.sub(r"\1 \2", _IMPORT.sub(taken, text)))
    strange = _OTHER.search(body)
    if strange:
        raise ValueError(f"{name}: this form is not understood: {strange[0]}")
    made = _object(name)
    return f"// {name}\nconst {made} = {{}}; {{\n{body}\nObject.assign({made}, {{ {', '.join(exported)} }});\n}}\n"


def _object(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name)
