"""Where secrets are: `env:NAME` or `file:PATH`. A config holds only these, never a secret."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from policies.config_key import one_line

SECRET_BYTES_MAX: Final = 16_384
_NAME = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*\Z")


class SecretError(Exception):
    """A source without a usable secret. The message never contains what the source held."""


def is_source(text: str) -> bool:
    """Return whether a string is `env:NAME` or `file:PATH`."""
    if text.startswith("file:"):
        try:
            return bool(one_line(text[5:]).strip())
        except ValueError:
            return False
    return bool(_NAME.match(text))


def rooted_source(source: str, base: Path) -> str:
    """Return a source whose file has an absolute path."""
    return f"file:{base / source[5:].strip()}" if source.startswith("file:") else source


def read_source(source: str, *, waits: bool = True) -> tuple[str, str]:
    """Return the secret without surrounding line breaks, and words for its source.

    waits: also read files whose reading could block, such as FIFOs. Raises SecretError.
    """
    kind, _, name = source.partition(":")
    if kind == "env":
        what = f"the environment variable {name}"
        text = os.environ.get(name)
        if text is None:
            raise SecretError(f"{what} is not set")
    else:
        what = name
        text = _file(Path(name), waits=waits)
    return text.strip("\r\n"), what


def _file(path: Path, *, waits: bool) -> str:
    try:
        if not waits and not stat.S_ISREG(path.stat().st_mode):
            raise SecretError(f"{path} is not a regular file")
        with path.open("rb") as file:
            raw = file.read(SECRET_BYTES_MAX + 1)
        if len(raw) > SECRET_BYTES_MAX:
            raise SecretError(f"{path} is larger than {SECRET_BYTES_MAX:,} bytes")
        return raw.decode()
    except UnicodeDecodeError:
        raise SecretError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}") from None
