"""Cached downloads with SHA-256 checks."""

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from keras_tying.files import sha256_of, write_atomically


def download(address: str, sha256: str, folder: str) -> Path:
    """Downloads a file into `folder` of the cache, if it is not there yet.

    Raises:
        ValueError: If the SHA-256 of the file differs.
        ConnectionError: If the file cannot be downloaded.
    """
    import pooch

    path = cache(folder)
    name = address.rpartition("/")[2]
    try:
        return Path(pooch.retrieve(address, sha256, fname=name, path=path, progressbar=False))
    except OSError as error:
        raise ConnectionError(
            f"{address} could not be downloaded: {error}. Put {name} into a folder and give the folder as --data-dir."
        ) from error


def cache(folder: str) -> Path:
    """Path of a folder in the user's cache."""
    import pooch

    return Path(pooch.os_cache("keras_tying")) / folder


def find_file(name: str, sha256: str, address: str, folder: str, data_dir: Path | None) -> Path:
    """Path of a published file, in `data_dir` if given, else downloaded into `folder` of the cache.

    Raises:
        FileNotFoundError: If `data_dir` does not exist.
        ValueError: If the file is not the published one.
        ConnectionError: If the file cannot be downloaded.
    """
    if data_dir is None:
        return download(address + name, sha256, folder)
    if not data_dir.is_dir():
        raise FileNotFoundError(f"There is no folder {data_dir}. Expected one with {name}.")
    import pooch

    path = data_dir / name
    if path.is_file() and pooch.file_hash(str(path)) != sha256:
        raise ValueError(
            f"{path} is not the published file: its SHA-256 differs. To use your own text, "
            "give its files instead of the name of a corpus."
        )
    return path


def unpack(archive: Path, member: str, folder: str) -> Path:
    """Unpacks a file of a zip or tar archive into `folder` of the cache, if it is not there yet.

    Its SHA-256 is kept beside it. A file that has changed since is unpacked again.

    Raises:
        FileNotFoundError: If there is no such archive.
        ValueError: If the file is not in the archive.
    """
    if not archive.is_file():  # what the cache has may be of another one
        raise FileNotFoundError(f"There is no file {archive}. Check the name or the folder given.")
    path = cache(folder) / member
    mark = path.with_name(f"{path.name}.sha256")
    if not (path.is_file() and mark.is_file() and mark.read_text() == sha256_of(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
            part = Path(temporary) / path.name
            with _member(archive, member) as content, part.open("wb") as file:
                shutil.copyfileobj(content, file)
            found = sha256_of(part)
            part.replace(path)
        write_atomically(mark, found.encode())
    return path


def keep(path: Path, content: bytes) -> Path:
    """Writes a file that is made of another one into the cache, unless it is there. Returns its path."""
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)
    return path


@contextmanager
def _member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """Opens a file of an archive for reading."""
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped, zipped.open(member) as content:
                yield content
        else:
            with tarfile.open(archive) as files:
                found = files.extractfile(member)
                if found is None:  # a folder
                    raise KeyError(member)
                yield found
    except KeyError:
        raise ValueError(f"The archive {archive} has no file {member}.") from None
