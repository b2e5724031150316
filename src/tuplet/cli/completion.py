"""`tuplet completion SHELL`: a script for bash, zsh or fish that completes commands, flags and their values.

It is made from the parser of the command line, so it knows what that knows. Where nothing is known, files are offered.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from tuplet.cli.command_parser import CommandParser
from tuplet.settings import OURS


class Completion(NamedTuple):
    """What may follow a command: commands, flags with their help, and the values of some flags."""

    path: str  # "tuplet bench run"
    commands: dict[str, str]  # also the words of a place that takes one of a few
    flags: dict[str, str]
    values: dict[str, tuple[str, ...]]  # of flags that take one of a few
    takes: frozenset[str]  # flags that take a value


def completions(command: CommandParser, path: str = "tuplet") -> Iterator[Completion]:
    """Those of a command and of all commands in it."""
    command.fill_flags()
    inner, words = dict[str, CommandParser](), dict[str, str]()
    flags, values, takes = {}, {}, set()
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            inner |= action.choices
        elif not action.option_strings:
            words |= dict.fromkeys(map(str, action.choices or ()), str(action.help or ""))
        elif action.help != argparse.SUPPRESS:
            for flag in action.option_strings:
                flags[flag] = (action.help or "").split(";")[0].split(" (")[0].replace("%%", "%")
                if action.nargs != 0:
                    takes.add(flag)
                if action.choices:
                    values[flag] = tuple(map(str, action.choices))
                elif flag == "--engine":
                    values[flag] = tuple(OURS["engines"])
    words |= {name: sub.description or "" for name, sub in inner.items()}
    yield Completion(path, words, flags, values, frozenset(takes))
    for name, sub in inner.items():
        yield from completions(sub, f"{path} {name}")


def script(shell: str, command: CommandParser) -> str:
    """The script for a shell."""
    found = list(completions(command))
    if shell == "fish":
        return _fish(found)
    paths = " | ".join(f'"{one.path}"' for one in found if " " in one.path)
    return SCRIPTS[shell].format(place=_PLACE.format(paths=paths, cases=_cases(found)))


def run_completion(arguments: argparse.Namespace) -> str:
    """`tuplet completion`."""
    from tuplet.cli.commands import parser

    return script(arguments.shell, parser()).rstrip("\n")


_PLACE = """\
    case "$at $part" in
      {paths}) at="$at $part" ;;
    esac
  done
  case "$at $last" in
{cases}
  esac
"""
SCRIPTS = {
    "bash": """\
# eval "$(tuplet completion bash)", or save it as ~/.local/share/bash-completion/completions/tuplet
_tuplet() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" last="${{COMP_WORDS[COMP_CWORD-1]}}" at=tuplet part offered=
  for part in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
{place}  COMPREPLY=($(compgen -W "$offered" -- "$word"))
}}
complete -o default -F _tuplet tuplet
""",
    "zsh": """\
#compdef tuplet
# eval "$(tuplet completion zsh)" after compinit, or save it as _tuplet in a folder of $fpath
_tuplet() {{
  local at=tuplet part last="${{words[CURRENT-1]}}"
  local offered=
  for part in "${{(@)words[2,CURRENT-1]}}"; do
{place}  [[ -n $offered ]] && compadd -- ${{=offered}}
  [[ $PREFIX == -* ]] || _files
}}
if [[ $funcstack[1] == _tuplet ]]; then _tuplet "$@"; else compdef _tuplet tuplet; fi
""",
}


def _cases(found: list[Completion]) -> str:
    """What is offered: behind a flag its values, or files if it takes any; else commands and flags."""
    lines = []
    for one in found:
        lines += [f'    "{one.path} {flag}") offered="{" ".join(values)}" ;;' for flag, values in one.values.items()]
        free = [f'"{one.path} {flag}"' for flag in sorted(one.takes - one.values.keys())]
        lines += [f"    {' | '.join(free)}) ;;"] if free else []
    lines += ['    *) case "$at" in']
    lines += [f'      "{one.path}") offered="{" ".join([*one.commands, *one.flags])}" ;;' for one in found]
    return "\n".join([*lines, "    esac ;;"])


def _fish(found: list[Completion]) -> str:
    lines = ["# tuplet completion fish > ~/.config/fish/completions/tuplet.fish"]
    for one in found:
        here = one.path.split()[1:]
        inner = " ".join(one.commands)
        said = [f"__fish_seen_subcommand_from {word}" for word in here]
        said += [f"not __fish_seen_subcommand_from {inner}"] if inner else []
        where = f"-n '{'; and '.join(said)}' " if said else ""
        lines += [f"complete -c tuplet {where}-f -a {name} -d {_quote(about)}" for name, about in one.commands.items()]
        for flag, about in one.flags.items():
            name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            if flag in one.values:
                name += f" -x -a '{' '.join(one.values[flag])}'"
            elif flag in one.takes:
                name += " -r"
            lines.append(f"complete -c tuplet {where}{name} -d {_quote(about)}")
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
