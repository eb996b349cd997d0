"""Files that are either whole or not there, and those that must be the ones they were."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes `content` so that a reader, or a crash, sees the old file or the new one, never a part.

    Raises:
        OSError: If the file cannot be written (no space, no permission); the old file stays.
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
    """Checks that a file is the one that was worked with before.

    Args:
        path: The file.
        what: What it should be, for example `"vocabulary this run was made with"`.
        expected: SHA-256 of that.
        received: SHA-256 of what it is.

    Raises:
        ValueError: If it is another.
    """
    if received != expected:
        raise ValueError(f"{path} is not the {what}: expected SHA-256 {expected}, received {received}. Put it back.")
