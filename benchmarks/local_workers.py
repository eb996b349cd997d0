"""Measurements by several workers on this machine."""

import json
import re
import subprocess
import sys
from typing import Any


def measured_by(workers: int, *work: str, timeout: int) -> Any:
    """What the first worker of a cluster prints after the word "measured".

    Args:
        workers: Number of workers.
        *work: The module that each worker runs, and its arguments.
        timeout: Seconds that they may take.

    Raises:
        RuntimeError: If the workers fail.
    """
    command = [sys.executable, "-m", "keras_tying", "cluster", "--workers", str(workers), "--", "-m", *work]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    found = re.search(r"^\[0\] measured (.*)$", finished.stdout, re.MULTILINE)
    if finished.returncode or not found:
        raise RuntimeError(f"{' '.join(work)} ended with {finished.returncode}: {finished.stdout}")
    return json.loads(found[1])
