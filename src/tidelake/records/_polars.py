"""Polars, imported when it is first used, and held to one thread.

Executors run one Python worker a core already; and whatever looks at no row, such as most verbs of
the command line, does without polars.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

# Polars reads the variable once, when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

if TYPE_CHECKING:
    import polars
else:

    class _WhenUsed(ModuleType):
        """Stands for a module until one of its names is asked for."""

        def __getattr__(self, name: str) -> object:
            found = getattr(import_module(self.__name__), name)
            setattr(self, name, found)
            return found

    polars = _WhenUsed("polars")

__all__ = ["polars"]
