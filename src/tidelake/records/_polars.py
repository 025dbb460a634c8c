"""Polars, held to one thread: executors run one Python worker a core already."""

from __future__ import annotations

import os

# Polars reads the variable once, when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import polars

__all__ = ["polars"]
