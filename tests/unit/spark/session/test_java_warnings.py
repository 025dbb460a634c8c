"""What a Java that is started for a local session may say to the person at the terminal."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import subprocess, sys, time
from tidelake.spark.session.local_session import _without_warnings_of_java
java = '''
import sys, time
sys.stderr.write("WARNING: Using incubator modules: jdk.incubator.vector\\\\n")
sys.stderr.write("WARNING: sun.misc.Unsafe::arrayBaseOffset will be removed\\\\n")
sys.stderr.write("WARNING: the disk is nearly full\\\\n")
sys.stderr.flush()
time.sleep(0.5)
sys.stderr.write("ERROR later\\\\n")
'''
with _without_warnings_of_java():
    started = subprocess.Popen([sys.executable, "-c", java])
    time.sleep(0.2)
sys.stderr.write("ours\\n")
started.wait()
time.sleep(1)
"""


def test_a_java_speaks_of_all_but_itself_even_after_the_session_has_begun() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    assert sorted(done.stderr.splitlines()) == [
        "ERROR later",
        "WARNING: the disk is nearly full",
        "ours",
    ]


def test_a_closed_standard_error_stays_closed() -> None:
    program = (
        "from tidelake.spark.session.local_session import _without_warnings_of_java\n"
        "with _without_warnings_of_java():\n    print('done')\n"
    )
    done = subprocess.run(
        f'{sys.executable} -c "{program}" 2>&-',
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "done\n"
