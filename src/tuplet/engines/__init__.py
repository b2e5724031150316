"""Ways to answer. Calling the package lists them: `tuplet.engines()`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuplet.engines.listed import EngineRow
    from tuplet.listing import Listing


class CallableModule(ModuleType):
    """`tuplet.engines` is both: the package of engines, and the function that lists them."""

    def __call__(self) -> Listing[EngineRow]:
        """All engines, installed ones included, with their capabilities and options; prints as a table."""
        from tuplet.engines.listed import engines

        return engines()


sys.modules[__name__].__class__ = CallableModule
