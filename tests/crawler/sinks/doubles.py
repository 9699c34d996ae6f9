"""Stand-ins for the references and files of a mirror."""

from __future__ import annotations

from collections.abc import Callable

from crawler.sinks.references import ReferenceRole, References


class Everything:
    """The names of a mirror that has every file."""

    def __contains__(self, name: object) -> bool:
        return True


class Replacing(References):
    """References replaced by the result of a function of their URL."""

    def __init__(self, replace: Callable[[str], str | None]) -> None:
        super().__init__()
        self._replace = replace

    def target(self, url: str, role: ReferenceRole, fragment: str) -> str | None:
        return self._replace(url)
