"""Files that are fetched once, checked and kept."""

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def download(address: str, sha256: str, folder: str) -> Path:
    """The file at `address`, from the cache's `folder` or, the first time, from the network.

    Raises:
        ValueError: If the file received is not the one with that SHA-256.
        ConnectionError: If it cannot be downloaded.
    """
    import pooch

    kept = cache(folder)
    name = address.rpartition("/")[2]
    try:
        return Path(pooch.retrieve(address, sha256, fname=name, path=kept, progressbar=False))
    except OSError as error:
        raise ConnectionError(
            f"{address} could not be downloaded: {error}. Put {name} into a folder and give that as the data folder."
        ) from error


def cache(folder: str) -> Path:
    """A folder of the user's cache."""
    import pooch

    return Path(pooch.os_cache("keras_tying")) / folder


def find_file(name: str, sha256: str, address: str, folder: str, data_dir: Path | None) -> Path:
    """A published file: from `data_dir` if that is given, else downloaded into the cache's `folder`.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If the file is not the published one.
        ConnectionError: If it cannot be downloaded.
    """
    if data_dir is None:
        return download(address + name, sha256, folder)
    if not data_dir.is_dir():
        raise FileNotFoundError(f"There is no folder {data_dir}. Expected one with {name}.")
    import pooch

    path = data_dir / name
    if path.is_file() and pooch.file_hash(str(path)) != sha256:
        raise ValueError(
            f"{path} is not the published file: its SHA-256 differs. To use a text of your own, "
            "name its files instead of the corpus."
        )
    return path


def unpack(archive: Path, member: str, folder: str) -> Path:
    """A file of a zip or tar archive, unpacked into the cache's `folder` the first time.

    Raises:
        ValueError: If the archive has no such file.
    """
    kept = cache(folder) / member
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as unfinished:
            part = Path(unfinished) / kept.name
            with _member(archive, member) as content, part.open("wb") as file:
                shutil.copyfileobj(content, file)
            part.replace(kept)
    return kept


@contextmanager
def _member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """A file of an archive, to be read."""
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
