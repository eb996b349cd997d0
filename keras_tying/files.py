"""Atomic writes of files and folders, locks, and SHA-256 checks."""

import errno
import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

UNFINISHED = ".unfinished"
"""Ending of the hidden names that unfinished files and folders have beside their places."""
OLD = "old."
"""Start of the name of a folder that is moved away for a new one."""
AWAY_SECONDS = 300.0
"""How long a folder that is away is waited for."""
AWAY = {
    *(errno.ENOENT, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT),
    *(errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
}
"""Errors of a file system that is not there now, but may come back."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk, a quota or a file that takes no more."""

log = logging.getLogger(__name__)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes a file atomically: after a crash, the file has either the old or the new content.

    A symbolic link is replaced by the file; what it points to stays as it is.

    Raises:
        OSError: If the file cannot be written, for example without space or permission. The old file is kept.
    """
    with replacing(path) as new:
        new.write_bytes(content)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Gives a new path on which a file or a folder is written; `path` is replaced with it when the block ends.

    If the block raises, the process is killed in it or the machine loses power, `path` stays what it was. A symbolic
    link is replaced; what it points to stays as it is. If the process is killed while a folder is exchanged for
    another, a later `remove_unfinished` of its parent puts the old one back.

    Args:
        path: File or folder. Its parent must exist.

    Raises:
        ValueError: If the path ends with no name, as `.` and `..` do.

    Example:

    >>> folder = tempfile.mkdtemp()
    >>> with replacing(Path(folder) / "model") as new:
    ...     new.mkdir()
    ...     _ = (new / "weights").write_text("1 2 3")
    >>> os.listdir(folder)
    ['model']
    """
    path = Path(path)
    if path.name in ("", ".."):
        raise ValueError(f"Expected a path that ends with the name of a file or folder. Received: {str(path)!r}")
    unfinished = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED))
    new, old = unfinished / path.name, unfinished / f"{OLD}{path.name}"
    try:
        yield new
        _write_to_disk(new)
        try:
            if new.is_dir() and os.path.lexists(path):  # unlike a file, it cannot take another's place in one step
                path.rename(old)
            new.replace(path)
        except BaseException:
            if os.path.lexists(old):
                old.rename(path)
            raise
    except OSError as error:
        _name_full(path, error)
        raise
    finally:
        if os.path.lexists(path) or not os.path.lexists(old):  # else it could not be put back, and this is all there is
            shutil.rmtree(unfinished, ignore_errors=True)


def _name_full(path: Path, error: OSError) -> None:
    """Gives an error of a full disk, for which the system may name no file, the path of what was written."""
    if error.filename is None and error.errno in FULL:
        error.filename = str(path)


def _write_to_disk(path: Path) -> None:
    """Waits until a file, or all files in a folder, are on the disk and no longer in the memory of the system."""
    for file in (path, *path.rglob("*")):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())


def check_replaceable(folder: Path, mark: str) -> None:
    """Checks that nothing else is lost when a folder is replaced with a new one.

    Args:
        folder: The folder. It may be missing, empty or a link, which `replacing` replaces itself.
        mark: Name of a file that every folder of this kind holds.

    Raises:
        FileExistsError: If there is something else.
    """
    if folder.is_symlink() or not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / mark).is_file()):
        raise FileExistsError(
            f"{folder} holds other files, and only a folder with {mark} is replaced. Choose another folder, or remove "
            "that one."
        )


def keep_others(folder: Path, new: Path, own: Collection[str]) -> None:
    """Copies what others put into a folder into the new one that is to replace it: files, links and empty folders.

    Args:
        folder: The folder that is replaced. It may be missing or a link, which `replacing` replaces itself.
        new: The new folder. What it has is not replaced.
        own: Patterns of the paths in `folder` of files that belong to the old content.
    """
    if folder.is_symlink():
        return
    root = Path("/")  # from which a pattern has to match a whole path
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if os.path.lexists(new / place) or any((root / place).match(f"/{pattern}") for pattern in own):
            continue
        if path.is_symlink() or path.is_file():
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, new / place, follow_symlinks=False)
        elif path.is_dir() and not any(path.iterdir()):
            (new / place).mkdir(parents=True)


def waiting_for(folder: Path, write: Callable[[], T]) -> T:
    """Calls a function that writes into a folder, again each second while a shared file system is away.

    It waits for `AWAY_SECONDS` at most.

    Args:
        folder: The folder, for the warning and for errors without a path.
        write: The function. It is called from its start again.

    Raises:
        OSError: What the function raises, if the folder stays away or the error is another one, such as a full disk.
    """
    deadline, told = time.monotonic() + AWAY_SECONDS, False
    while True:
        try:
            return write()
        except OSError as error:
            if error.errno not in AWAY or time.monotonic() > deadline:
                _name_full(folder, error)
                raise
            if not told:
                log.warning("%s is away (%s); waiting for it, %g seconds at most.", folder, error, AWAY_SECONDS)
            told = True
        time.sleep(1)


def remove_unfinished(folder: Path, only: str | None = None) -> None:
    """Removes what killed processes left unfinished in a folder. No other process may be writing there.

    A folder that was moved away, and whose place no new one has taken, is put back.

    Args:
        folder: The folder.
        only: Name of the only file or folder in it whose leftovers are removed. Default: all.
    """
    for path in folder.glob(f".*{UNFINISHED}"):
        name = path.name[1:].removesuffix(UNFINISHED).rpartition(".")[0]  # between are letters of `mkdtemp`
        if only not in (None, name):
            continue
        if path.is_dir() and not path.is_symlink():
            old, place = path / f"{OLD}{name}", folder / name
            if os.path.lexists(old) and not os.path.lexists(place):
                old.rename(place)
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, refusal: str | None = None) -> Iterator[None]:
    """Holds the lock of a file, which ends with the process at the latest.

    Where the file system has no locks, a warning is logged.

    Args:
        path: The file, created if it does not exist.
        refusal: The error if another process holds the lock. Default: it is waited for.

    Raises:
        BlockingIOError: If another process holds the lock.
        ValueError: If the file is a link.
    """
    import fcntl

    if path.is_symlink():
        raise ValueError(f"{path} must be a file. Received: a link to {path.readlink()}. Remove the link.")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if refusal is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(refusal) from None
        except OSError as error:
            log.warning("%s cannot be locked (%s): make sure that no other process writes there.", path, error)
        yield
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the name or restore the file.")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_lines(lines: Iterable[str | Sequence[str]]) -> str:
    """SHA-256 of lines, or of tuples of lines."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line if isinstance(line, str) else chr(9).join(line)}\n".encode())
    return digest.hexdigest()


def supersede(path: Path, content: bytes) -> None:
    """Writes a file atomically and keeps what it had before, if that differs, in the folder `superseded` beside it.

    `NAME.json` is kept as `superseded/NAME_1.json`, the next time as `superseded/NAME_2.json`.

    Raises:
        OSError: If a file cannot be written. The old file is kept then.
    """
    if path.exists() and (earlier := path.read_bytes()) != content:
        folder = path.parent / "superseded"
        folder.mkdir(exist_ok=True)
        for number in count(1):
            kept = folder / f"{path.stem}_{number}{path.suffix}"
            if not kept.exists():
                write_atomically(kept, earlier)
                break
            if kept.read_bytes() == earlier:  # kept by a call that was interrupted before its last line
                break
    write_atomically(path, content)


def check_fingerprint(path: str | Path, what: str, expected: str, received: str, remedy: str = "Restore it.") -> None:
    """Checks the SHA-256 of a file.

    Args:
        path: The file.
        what: Description of the expected content, for example `"vocabulary this run was made with"`.
        expected: Expected SHA-256.
        received: SHA-256 of the file.
        remedy: What to do if the two differ.

    Raises:
        ValueError: If the two differ.
    """
    if received != expected:
        raise ValueError(f"{path} is not the {what}: expected SHA-256 {expected}, received {received}. {remedy}")
