"""What a verb gets from the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from tidelake.cli.output import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a verb: its arguments, where to write, and what time it is."""

    args: argparse.Namespace
    out: Output
    now_ms: int

    @property
    def table(self) -> str:
        """Return the path or URI that the command names."""
        given: str = self.args.table
        return given

    @property
    def options(self) -> dict[str, str]:
        """Return the options of the command line."""
        return dict(self.args.option)
