"""The command line: `tidelake VERB TABLE`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from typing_extensions import override

from tidelake import __version__
from tidelake.cli.call import Call
from tidelake.cli.output import Output
from tidelake.cli.verbs import VERBS, Verb
from tidelake.errors import TidelakeError

if TYPE_CHECKING:
    from tidelake.env import Clock

DONE, AT_FAULT, WRONG_COMMAND = 0, 1, 2
#: What shells expect of a command that was ended by Ctrl-C.
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None, *, clock: Clock | None = None) -> int:
    """Run one command; return 0 when done, 1 when the table or the request is at fault.

    A command line that makes no sense exits with 2.
    """
    _open_closed_streams()
    args = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the terminal's encoding lacks is shown by its number.
        sys.stdout.reconfigure(errors="backslashreplace")
    out = Output(sys.stdout, as_json=args.json)
    verb: Verb = args.verb
    try:
        is_good = verb.run(Call(args=args, out=out, now_ms=(clock or _system_clock()).now_ms()))
        out.flush()
    except TidelakeError as error:
        return _failed(f"{error}\n", AT_FAULT)
    except KeyboardInterrupt:
        return _failed("interrupted\n  next: run it again; what had begun is gone on with\n")
    except BrokenPipeError:
        # Whoever reads our output has seen enough.
        _drop_output()
        return DONE
    return DONE if is_good else AT_FAULT


def _system_clock() -> Clock:
    # It comes with the clients of all storages, which `--help` can do without.
    from tidelake.env import SystemClock

    return SystemClock()


def _failed(told: str, code: int = INTERRUPTED) -> int:
    with suppress(OSError):  # nobody is left to tell
        sys.stderr.write(told)
        sys.stderr.flush()
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    return code


def _drop_output() -> None:
    """Leave the interpreter nothing to flush at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Put something in the place of streams that were closed before the process began."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the end


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints say what to do next."""

    @override
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{message}\n  next: see `{self.prog} --help`\n")
        sys.exit(WRONG_COMMAND)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tidelake",
        description="Look into Apache Hudi tables, read them and tend them.",
        epilog="Exit code: 0 done, 1 the table or the request is at fault, 2 the command is wrong.",
    )
    parser.add_argument("--version", action="version", version=f"tidelake {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        of_verb = verbs.add_parser(
            verb.name,
            help=verb.summary,
            description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
            epilog=f"example:\n  {verb.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if verb.actions:
            of_verb.add_argument("action", choices=verb.actions)
        of_verb.add_argument("table", metavar=verb.subject, help=verb.subject_help)
        of_verb.add_argument("--json", action="store_true", help=verb.json_help)
        of_verb.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            type=_option,
            help="a Hudi option or a storage option; may be given again",
        )
        verb.add_arguments(of_verb)
        of_verb.set_defaults(verb=verb)
    return parser


def _option(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{given!r} is not NAME=VALUE")
    return name, value
