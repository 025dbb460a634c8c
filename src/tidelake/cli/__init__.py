from tidelake.cli.main import main

__all__ = ["main"]
