"""The command line: parse, run one function, print what it returns.

Data goes to standard output, progress to standard error. Exit codes: 0 done (also with no answers), 1 a clear error of
input or data, 2 wrong usage. argparse rather than a heavier parser keeps a cold `tuplet ask` well under a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from tuplet.cli.arguments import parser
from tuplet.cli.command_parser import echo
from tuplet.errors import TupletError
from tuplet.files import reason


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = parser().parse_args(argv)
    arguments.say = lambda text: print(text, flush=True)
    try:
        module, _, function = arguments.run.partition(":")
        echo(getattr(import_module(module), function)(arguments), getattr(arguments, "json", False))
        sys.stdout.flush()
    except TupletError as error:
        print(f"error: {error.shell}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) went away: nothing is wrong, and Python must not complain at exit.
        _discard_output()
        return 0
    except OSError as error:
        # Files say what is wrong with them; what is left is the output itself: a full device, a closed terminal.
        print(f"error: cannot write {error.filename or 'the output'}: {reason(error)}", file=sys.stderr)
        _discard_output()
        return 1
    except KeyboardInterrupt:
        goes_on = arguments.command in ("build", "index")
        print("stopped; the same command goes on with what is finished" if goes_on else "stopped", file=sys.stderr)
        return 130
    return 0


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
