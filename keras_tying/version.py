"""The version of the package, and the commit of its code."""

import subprocess
from functools import cache
from pathlib import Path

__version__ = "0.1.0"

NOT_RECORDED = "not recorded"
"""What results say of the device, commit or version of a training that did not note it."""

CODE = ("keras_tying/*.py", "keras_tying_cli.py", "train/*.py", "studies/*.py", "benchmarks/*.py")
"""Files whose changes make a result one of other code than the commit's."""


@cache
def commit() -> str | None:
    """Git commit of the running code, followed by `with changes` if the code differs from it.

    It is read once, so a process that trains for hours names the code that it started with.

    Returns:
        `None` if the package is not in a checkout of its repository, or there is no git.
    """

    def git(*words: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(Path(__file__).parents[1]), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "keras_tying/version.py")  # not another repository around an installation
        return git("rev-parse", "HEAD") + (" with changes" if git("status", "--porcelain", "--", *CODE) else "")
    except (OSError, subprocess.CalledProcessError):
        return None
