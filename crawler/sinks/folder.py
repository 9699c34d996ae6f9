"""A folder that belongs to a sink: names in it are never led out of it by symbolic links."""

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
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def make_folder(path: Path, mode: int) -> None:
    """Create a folder and those above it, with the permissions that files of `mode` have, and with
    leave to enter where they may be read. Raises OSError."""
    if path.is_dir():
        return
    make_folder(path.parent, mode)
    with contextlib.suppress(FileExistsError):
        path.mkdir(folder_mode(mode))


def folder_mode(mode: int) -> int:
    return mode | (mode & 0o444) >> 2


class Folder:
    """Files by names such as `a.test/x/index.html`. Every call raises OSError; a name of which a
    part is a symbolic link is an error too, or a file that is not there."""

    def __init__(self, path: Path, mode: int = FILE_MODE) -> None:
        self.path = path
        self._mode = mode
        self._root = -1

    def open(self) -> None:
        make_folder(self.path, self._mode)
        check_folder(self.path)
        self._root = os.open(self.path, _FOLDER & ~os.O_NOFOLLOW)

    def close(self) -> None:
        root, self._root = self._root, -1
        if root >= 0:
            os.close(root)

    def has(self, name: str) -> bool:
        """Whether there is anything of this name. Follows links: not to be built on."""
        return os.path.exists(f"{self.path}/{name}")  # noqa: PTH110 - a fifth of the time

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none of this name, or a link."""
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
        """Whole or not at all: a crash leaves the file that was there. draft: a name for what is
        not whole yet."""
        with self._file(draft) as file:
            file.write(content)
            if fsync:
                file.flush()
                os.fsync(file.fileno())
        with self._parent(draft) as (source, first), self._parent(name, make=True) as (to, last):
            os.replace(first, last, src_dir_fd=source, dst_dir_fd=to)

    def remove(self, name: str) -> None:
        """Remove a file, or a link and not what it points to."""
        with self._parent(name) as (folder, last):
            os.unlink(last, dir_fd=folder)

    def files(self, name: str) -> list[str]:
        """The names of the files in a folder of this name; none if there is no such folder."""
        try:
            with self._parent(f"{name}/.") as (folder, _), os.scandir(folder) as found:
                return [one.name for one in found if one.is_file(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sync(self, name: str) -> None:
        """Have the names in a folder on the medium."""
        with self._parent(f"{name}/.") as (folder, _):
            os.fsync(folder)

    @contextmanager
    def _file(self, name: str) -> Iterator[BinaryIO]:
        """A new file, in the place of what has this name."""
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
        """The folder that a name is in, opened part by part, and the last part."""
        *parts, last = name.split("/")
        folder = os.dup(self._root)
        try:
            for part in parts:
                if part in ("", ".", ".."):
                    raise ValueError(f"{name!r} is no name in a folder")
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, folder_mode(self._mode), dir_fd=folder)
                inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, last
        finally:
            os.close(folder)
