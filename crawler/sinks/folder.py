"""A folder of a sink, confined against symbolic links."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from storage.safe_files import FILE_MODE, check_folder

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMES_CACHED: Final = 25_000  # about 4 MB
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def make_folder(path: Path, mode: int) -> None:
    """Create a folder and its parents. Raises OSError.

    mode: the permissions of files. Folders may also be entered by everyone who may read files.
    """
    if path.is_dir():
        return
    make_folder(path.parent, mode)
    with contextlib.suppress(FileExistsError):
        path.mkdir(folder_mode(mode))


def folder_mode(mode: int) -> int:
    return mode | (mode & 0o444) >> 2


class Folder:
    """A folder with files by names such as `a.test/x/index.html`.

    All methods may raise OSError, also if a part of a name is a symbolic link.
    """

    def __init__(self, path: Path, mode: int = FILE_MODE) -> None:
        self.path = path
        self._mode = mode
        self._root = -1
        self._known: set[str] = set()  # a cache of existing names

    def open(self) -> None:
        make_folder(self.path, self._mode)
        check_folder(self.path)
        self._root = os.open(self.path, _FOLDER & ~os.O_NOFOLLOW)

    def close(self) -> None:
        root, self._root = self._root, -1
        if root >= 0:
            os.close(root)

    def __contains__(self, name: object) -> bool:
        """Return whether a file exists. Follows symbolic links, so this is no safeguard."""
        assert isinstance(name, str)
        if name in self._known:
            return True
        found = os.path.exists(f"{self.path}/{name}")  # noqa: PTH110 - a fifth of the time
        if found:
            self._remember(name)
        return found

    def _remember(self, name: str) -> None:
        if len(self._known) >= _NAMES_CACHED:
            self._known.clear()
        self._known.add(name)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist or is a symbolic link."""
        try:
            with self._parent(name) as (folder, last):
                descriptor = os.open(last, os.O_RDONLY | _FILE, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def write(self, name: str, content: bytes, *, draft: str, fsync: bool) -> None:
        """Write a file atomically. `draft`: the name of a temporary file."""
        with self._file(draft) as file:
            file.write(content)
            if fsync:
                file.flush()
                os.fsync(file.fileno())
        with self._parent(draft) as (source, first), self._parent(name, make=True) as (to, last):
            os.replace(first, last, src_dir_fd=source, dst_dir_fd=to)
        self._remember(name)

    def remove(self, name: str) -> None:
        """Remove a file, or a symbolic link itself."""
        with self._parent(name) as (folder, last):
            os.unlink(last, dir_fd=folder)
        self._known.discard(name)

    def files(self, name: str) -> list[str]:
        """Return the names of the files in a folder, or none if it does not exist."""
        try:
            with self._parent(f"{name}/.") as (folder, _), os.scandir(folder) as found:
                return [one.name for one in found if one.is_file(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sync(self, name: str) -> None:
        """Make the names in a folder durable."""
        with self._parent(f"{name}/.") as (folder, _):
            os.fsync(folder)

    @contextmanager
    def _file(self, name: str) -> Iterator[BinaryIO]:
        """Create a file, replacing any existing one."""
        with self._parent(name, make=True) as (folder, last):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(last, dir_fd=folder)
            descriptor = os.open(
                last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, self._mode, dir_fd=folder
            )
        with os.fdopen(descriptor, "wb") as file:
            yield file

    @contextmanager
    def _parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of a name, part by part, and return it with the last part."""
        *parts, last = name.split("/")
        folder = os.dup(self._root)
        try:
            for part in parts:
                if part in ("", ".", ".."):
                    raise ValueError(f"{name!r} is not a name inside a folder")
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, folder_mode(self._mode), dir_fd=folder)
                inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, last
        finally:
            os.close(folder)
