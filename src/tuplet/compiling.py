"""Kernels are compiled once after an install, which takes a while: whoever waits for it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

ONCE = "compiling the search; this happens once after an install and takes up to a minute"


@contextmanager
def told(say: Callable[[str], object]) -> Iterator[None]:
    """Call `say` before the first kernel that is compiled here; those that are ready on disk are loaded in silence."""
    from numba.core import event

    class FirstCompile(event.Listener):
        said = False

        def on_start(self, event: object) -> None:
            if not self.said:
                self.said = True
                say(ONCE)

        def on_end(self, event: object) -> None:
            pass

    with event.install_listener("numba:compile", FirstCompile()):
        yield
