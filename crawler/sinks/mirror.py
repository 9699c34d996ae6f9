"""The mirror sink: a folder of pages that browsers can open without a network."""

from __future__ import annotations

import contextlib
import html
import logging
import mimetypes
import os
import threading
from collections.abc import Sequence
from typing import BinaryIO, Final

from crawler.config import SinkConfig
from crawler.documents.charset import media_type
from crawler.documents.crawled_page import CrawledPage
from crawler.documents.page import HTML_TYPES
from crawler.sinks.folder import Folder, make_folder
from crawler.sinks.inert import XML_BYTES_MAX, is_markup, is_xml
from crawler.sinks.journal import Journal
from crawler.sinks.mirror_paths import (
    DRAWING,
    ENDINGS,
    as_drawing,
    drawing,
    file_of,
    has_ending,
    relative,
)
from crawler.sinks.offline import (
    IMAGE,
    USED,
    WEB,
    OfflineReferences,
    importing,
    notice,
    offline_page,
    offline_style,
    offline_xml,
    own_page,
    stub,
)
from crawler.sinks.references import ReferenceRole
from crawler.sinks.relinking import relinked
from crawler.sinks.requisites import BYTES_READ_MAX, MANIFEST_TYPE, in_manifest
from crawler.sinks.sink import SinkError, Withdrawn, sink_error, sink_errors
from crawler.sinks.symbols import Symbols, drawings_used
from policies.scope import HOPS_MAX
from storage import process_locks
from storage.safe_files import FILE_MODE, open_for_update
from storage.transient_faults import kind_of

_log = logging.getLogger("courtly.sinks")

MARK: Final = ".courtly"  # the folder that identifies a mirror; it holds the journals
_HTML_ENDINGS: Final = frozenset({"html", "htm"})
_SCRIPT_TYPES: Final = frozenset(
    {"text/javascript", "application/javascript", "application/x-javascript"}
)
_PART_TYPES: Final = (
    "image/", "font/", "audio/", "video/", "application/font", "application/x-font",
)  # fmt: skip
# Extensions of files that browsers show as XML, and of files whose content they examine.
_XML_ENDINGS: Final = frozenset({"svg", "xml", "rss", "atom"})
_STYLE_ENDING: Final = "css"
_UNKNOWN_ENDINGS: Final = frozenset({"part", "bin"})
# The files, other than pages, that a URL with a redirect may have.
_COPIED: Final = (
    (ReferenceRole.PART, None),
    (ReferenceRole.PART, DRAWING),
    (ReferenceRole.STYLE, None),
    (ReferenceRole.SCRIPT, None),
)
_HOSTS_LISTED: Final = 10_000  # on the start page


class Mirror:
    """The `mirror` sink.

    While it runs, links within a host lead to the future files of their URLs. `close` points links
    to files that do not exist back to the web.

    Two journals record the work of `close`. `aliases` has redirects with their targets. `links` has
    files with references to files that did not exist yet: URLs of links, with the prefix WEB if the
    link leads to the web, URLs of images with IMAGE, and names of SVG files used with USED.
    """

    def __init__(self, config: SinkConfig, *, mode: int = FILE_MODE) -> None:
        self.path = config.path
        self._mode = mode
        self._folder = Folder(config.path, mode)
        self._scripts = config.scripts
        self._fsync = config.fsync
        self._changed_folders: set[str] = set()  # since the last flush
        self._withdrawn: set[str] = set()  # since the last flush
        self._outdated: set[str] = set()  # files of a page that is put again, until rewritten
        self._lock: BinaryIO | None = None
        self._links = Journal(self.path / MARK / "links.jsonl", mode)
        self._aliases = Journal(self.path / MARK / "aliases.jsonl", mode)

    def open(self) -> None:
        try:
            with sink_errors(self):
                self._open()
        except BaseException:
            self._release()
            raise

    def _open(self) -> None:
        mark = self.path / MARK
        if self.path.exists() and not self.path.is_dir():
            raise SinkError(f"the sink {self.path} is not a folder and was not touched")
        if mark.is_symlink():
            raise SinkError(f"the sink {self.path} contains the symbolic link {mark}")
        if not mark.is_dir() and self.path.is_dir() and any(self.path.iterdir()):
            raise SinkError(
                f"the sink {self.path} is a folder with other content: a mirror needs an empty one"
            )
        self._folder.open()
        make_folder(mark, self._mode)
        self._lock = os.fdopen(open_for_update(mark / "lock", self._mode), "r+b")
        try:
            process_locks.lock(self._lock.fileno())
        except BlockingIOError:
            raise SinkError(f"the sink {self.path} is being written by another crawl") from None
        self._links.open()
        self._aliases.open()

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        with contextlib.ExitStack() as stack:  # closes the others even if one fails
            if lock is not None:
                stack.callback(lock.close)
            stack.callback(self._folder.close)
            stack.callback(self._aliases.close)
            stack.callback(self._links.close)
            stack.callback(self._links.keep_none)

    def close(self, hurried: threading.Event) -> None:
        if self._lock is None:
            return
        try:
            self._remove_aliases()
            if not hurried.is_set():
                self._copy_aliases(hurried)
                self._relink(hurried)
                self._write_start_page()
        except BaseException as error:
            if not isinstance(error, OSError):
                self._release()
                raise
            if hurried.is_set() or kind_of(error) is None:
                self._release()
            raise sink_error(self.path, error) from error
        self._release()

    def flush(self) -> None:
        with sink_errors(self):
            self._remove_aliases()
            self._links.flush()
            self._aliases.flush()
            if self._fsync:
                for folder in self._changed_folders:
                    self._folder.sync(folder)
            self._changed_folders.clear()

    def undo(self) -> None:
        """Discard journal entries. Files need no undo, because they are written again."""
        self._withdrawn.clear()
        self._outdated.clear()
        self._links.undo()
        self._aliases.undo()

    def put(self, page: CrawledPage) -> None:
        with sink_errors(self):
            self._remove_aliases()  # before the page may add some of their names
            if page.earlier is not None:
                self._outdated.update(self._files_of(page.url))
            if page.redirect_url is not None:
                self._put_redirect(page.url, page.redirect_url)
            elif 200 <= page.status < 300 and page.body_read and page.directives.archive:
                self._put_body(page)
            while self._outdated:  # of another type, or the page has no file by now
                self._folder.remove(self._outdated.pop())

    def withdraw(self, page: Withdrawn) -> None:
        with sink_errors(self):
            for name in self._files_of(page.url):
                if name.endswith(".html") and page.reason != "changed":
                    self._write(name, notice(page.url, page.robots_url, page.reason))
                else:
                    self._folder.remove(name)
            self._withdrawn.add(page.url)

    def _put_body(self, page: CrawledPage) -> None:
        url = page.url
        role, ending = _role_and_ending(media_type(page.content_type), page.body)
        path = file_of(url, role, ending)
        references = OfflineReferences(url, path, files=self._folder, scripts=self._scripts)
        body, is_cut = _offline(page, role, path, references)
        self._write(path, body)
        if is_cut:
            _log.warning("the mirror has only the beginning of %s, which is too long", url)
        if references.skipped:
            _log.warning(
                "%d references in %s were left unchanged in the mirror: they are too many or too"
                " long, or the page would become too large",
                references.skipped,
                url,
            )
        drawings = drawings_used(body, path) if path.endswith(".html") else ()
        marked = [*references.marked, *(f"{USED}{name}" for name in drawings)]
        if marked:
            self._links.add([path, *marked])
        if role is not ReferenceRole.PAGE and not has_ending(url):
            # Links lead to the file that a page would have.
            self._write_stub(file_of(url, ReferenceRole.PAGE), path)

    def _put_redirect(self, url: str, target: str) -> None:
        name, to = file_of(url, ReferenceRole.PAGE), file_of(target, ReferenceRole.PAGE)
        if name.endswith(".html") and name != to:
            self._write_stub(name, to, url=target)
            if to not in self._folder:
                self._links.add([name, target])
        self._aliases.add([url, target])

    def _remove_aliases(self) -> None:
        """Remove copies of withdrawn pages, which exist for URLs that redirect to them.

        One pass over the journal serves all pages withdrawn since the last one.
        """
        withdrawn, self._withdrawn = self._withdrawn, set()
        if not withdrawn:
            return
        for entry in self._aliases.entries():
            if len(entry) == 2 and entry[1] in withdrawn:
                for name in self._files_of(entry[0]):
                    if not name.endswith(".html"):
                        self._folder.remove(name)

    def _files_of(self, url: str) -> list[str]:
        """Return all existing files of a URL, with any extension."""
        path = file_of(url, ReferenceRole.PAGE)
        if has_ending(url):
            return [path] if path in self._folder else []
        folder, _, name = path.rpartition("/")
        stem = name.removesuffix("html")
        names = self._folder.files(folder)
        return [f"{folder}/{name}" for name in names if name.startswith(stem)]

    def _write_stub(self, name: str, to: str, *, url: str = "") -> None:
        """Write a page that leads to another file, which is that of `url` if given."""
        self._write(name, stub(relative(to, name), url))

    def _write(self, name: str, content: bytes) -> None:
        self._folder.write(name, content, draft=f"{MARK}/draft", fsync=self._fsync)
        self._outdated.discard(name)
        if folder := name.rpartition("/")[0]:
            self._changed_folders.add(folder)

    def _copy_aliases(self, hurried: threading.Event) -> None:
        """Copy the targets of redirects that are not pages, such as images.

        A style sheet imports its target instead, because its references are relative. For chains of
        redirects, the pass is repeated.
        """
        for _ in range(HOPS_MAX):
            copied = False
            for entry in self._aliases.entries():
                if hurried.is_set():
                    return
                if len(entry) == 2:
                    copied = self._copy_alias(*entry) or copied
            if not copied:
                return

    def _copy_alias(self, url: str, target: str) -> bool:
        copied = False
        for role, ending in _COPIED:
            source, name = file_of(target, role, ending), file_of(url, role, ending)
            if name.endswith(".html") or name in self._folder or source not in self._folder:
                continue
            if name.endswith(f".{_STYLE_ENDING}"):
                content: bytes | None = importing(relative(source, name))
            else:
                content = self._folder.read(source)
            if content is not None:
                self._write(name, content)
                copied = True
        return copied

    def _relink(self, hurried: threading.Event) -> None:
        """Point links to existing files, and others to the web. Copy used elements of SVG files.

        Links that still lead out are kept in the journal for the next run.
        """
        symbols = Symbols(self._folder)
        self._links.keep_none()  # of an earlier attempt
        for path, *marked in self._links.entries():
            missing = marked if hurried.is_set() else self._relink_file(path, marked, symbols)
            if missing:
                self._links.keep([path, *missing])
        if symbols.skipped:
            _log.warning(
                "the mirror shows %d SVG elements (`use`) only when served: their file is too"
                " large, or a page uses too many",
                symbols.skipped,
            )
        self._links.renew()

    def _relink_file(self, path: str, marked: Sequence[str], symbols: Symbols) -> list[str]:
        """Relink one file if necessary. Return the marks that still apply."""
        files = self._folder
        images = {mark.removeprefix(IMAGE) for mark in marked if mark.startswith(IMAGE)}
        used = {mark.removeprefix(USED) for mark in marked if mark.startswith(USED)}
        links = {  # whether they lead to the web
            mark.removeprefix(WEB): mark.startswith(WEB)
            for mark in marked
            if not mark.startswith((IMAGE, USED))
        }
        drawings = {file_of(url, ReferenceRole.PART) for url in images if drawing(url) in files}
        usable = {name for name in used if name in files or as_drawing(name) in files}
        exists = {url: file_of(url, ReferenceRole.PAGE) in files for url in links}
        wrong = any(exists[url] == leads_out for url, leads_out in links.items())
        if (wrong or drawings or usable) and (content := files.read(path)) is not None:
            page = relinked(content, path, files, drawings)
            if usable:
                page = symbols.shown(content if page is None else page, path) or page
            if page is not None:
                self._write(path, page)
        return [
            *(f"{WEB}{url}" for url, found in exists.items() if not found),
            *(
                f"{IMAGE}{url}"
                for url in sorted(images)
                if file_of(url, ReferenceRole.PART) not in files and drawing(url) not in files
            ),
            *(f"{USED}{name}" for name in sorted(used - usable)),
        ]

    def _write_start_page(self) -> None:
        hosts = sorted(
            folder.name
            for folder in self.path.iterdir()
            if folder.name != MARK and (folder / "index.html").is_file()
        )[:_HOSTS_LISTED]
        items = "".join(
            f'<li><a href="{html.escape(name)}/index.html">{html.escape(name)}</a></li>\n'
            for name in hosts
        )
        page = own_page("Mirror", f"<h1>Mirror</h1>\n<ul>\n{items}</ul>")
        self._write("index.html", page)


def _offline(
    page: CrawledPage, role: ReferenceRole, path: str, references: OfflineReferences
) -> tuple[bytes, bool]:
    """Return the content of a page's file, and whether the body was cut to a limit."""
    declared, body = media_type(page.content_type), page.body
    shown_as = path.rpartition(".")[2]  # browsers go by the extension, not by the declared type
    if shown_as in _XML_ENDINGS or (role is ReferenceRole.PART and is_xml(declared, body)):
        return offline_xml(body, references), len(body) > XML_BYTES_MAX
    if (
        role is ReferenceRole.PAGE
        or shown_as in _HTML_ENDINGS
        or (shown_as in _UNKNOWN_ENDINGS and is_markup(body))
    ):
        return offline_page(body, page.content_type, references), False
    if role is ReferenceRole.STYLE or shown_as == _STYLE_ENDING:
        return offline_style(body, page.content_type, references), len(body) > BYTES_READ_MAX
    return in_manifest(declared, body, page.url, references) or body, False


def _role_and_ending(declared: str, body: bytes) -> tuple[ReferenceRole, str | None]:
    """Return the role of a body, and the extension of its file if its URL has none."""
    if declared in HTML_TYPES or (not declared and body.lstrip()[:1] == b"<"):
        return ReferenceRole.PAGE, None
    if declared == "text/css":
        return ReferenceRole.STYLE, None
    if declared in _SCRIPT_TYPES:
        return ReferenceRole.SCRIPT, None
    if declared == MANIFEST_TYPE:
        return ReferenceRole.MANIFEST, None
    if declared == "image/svg+xml":
        return ReferenceRole.PART, DRAWING  # browsers do not recognise SVG by content
    if declared.startswith(_PART_TYPES):
        return ReferenceRole.PART, None
    if is_xml(declared, b""):
        return ReferenceRole.PART, ".xml"
    guessed = mimetypes.guess_extension(declared) or ""
    return ReferenceRole.PART, guessed if guessed[1:] in ENDINGS - _HTML_ENDINGS else ".bin"
