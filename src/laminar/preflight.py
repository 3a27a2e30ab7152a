"""Check that this machine can run Laminar: Python 3.11+ and Java 17+.

Imports nothing but the standard library and uses no syntax newer than Python 3.6, because
`make` runs this file with whatever `python3` the machine has, before anything is installed.
"""

import os
import re
import shutil
import subprocess
import sys

MIN_PYTHON = (3, 11)
MIN_JAVA = 17

_JAVA_HINT = (
    "Install a Java runtime, for example 'apt-get install openjdk-17-jre-headless' or "
    "'brew install openjdk@17', or point JAVA_HOME at one."
)


def java_command():
    # type: () -> str | None
    """Return the java that Spark would start: JAVA_HOME's if set, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=os.path.join(home, "bin"))  # noqa: PTH118
    return shutil.which("java")


def parse_java_version(text):
    # type: (str) -> int | None
    """Read the feature release from the output of `java -version` (1.8.0 is 8)."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def java_problem():
    # type: () -> str | None
    """Say in one sentence what is wrong with Java here; None if it will do."""
    command = java_command()
    if command is None:
        where = "under JAVA_HOME" if os.environ.get("JAVA_HOME") else "on the PATH"
        return "Laminar needs Java {}+ and found no java {}. {}".format(MIN_JAVA, where, _JAVA_HINT)
    try:
        done = subprocess.run(
            [command, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "Laminar needs Java {}+, but {} does not start ({}). {}".format(
            MIN_JAVA, command, error, _JAVA_HINT
        )
    version = parse_java_version(done.stdout.decode("utf-8", "replace"))
    if version is None or version < MIN_JAVA:
        found = "an unknown version" if version is None else "Java {}".format(version)
        return "Laminar needs Java {}+, but {} is {}. {}".format(
            MIN_JAVA, command, found, _JAVA_HINT
        )
    return None


def python_problem():
    # type: () -> str | None
    """Say in one sentence what is wrong with this Python; None if it will do."""
    if sys.version_info[:2] >= MIN_PYTHON:
        return None
    return "Laminar needs Python {}.{}+, but {} is {}.{}; set PYTHON=python3.11 or newer.".format(
        MIN_PYTHON[0], MIN_PYTHON[1], sys.executable, sys.version_info[0], sys.version_info[1]
    )


def main():
    # type: () -> int
    """Print the first problem, if any; the exit code says whether there was one."""
    problem = python_problem() or java_problem()
    if problem is None:
        return 0
    print(problem, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
