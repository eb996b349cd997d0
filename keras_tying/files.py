"""Atomic file writes and SHA-256 checks."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes a file atomically: after a crash, the file has either the old or the new content.

    Raises:
        OSError: If the file cannot be written, for example without space or permission. The old file is kept.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_fingerprint(path: Path, what: str, expected: str, received: str) -> None:
    """Checks the SHA-256 of a file.

    Args:
        path: The file.
        what: Description of the expected content, for example `"vocabulary this run was made with"`.
        expected: Expected SHA-256.
        received: SHA-256 of the file.

    Raises:
        ValueError: If the two differ.
    """
    if received != expected:
        raise ValueError(f"{path} is not the {what}: expected SHA-256 {expected}, received {received}. Restore it.")
