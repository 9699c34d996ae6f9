"""Pages as a folder that a browser can open without a network: links lead from file to file."""

from __future__ import annotations

import contextlib
import fcntl
import html
import logging
import os
import threading
from typing import BinaryIO, Final

from crawler.config import SinkConfig
from crawler.documents.charset import media_type
from crawler.documents.crawled_page import CrawledPage
from crawler.sinks.folder import Folder, make_folder
from crawler.sinks.inert import XML_BYTES_MAX, is_markup, is_xml
from crawler.sinks.journal import Journal
from crawler.sinks.kinds import HTML_ENDINGS, kind_by_type
from crawler.sinks.manifests import in_manifest
from crawler.sinks.mirror_paths import DRAWING, as_drawing, drawing, file_of, has_ending, relative
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
    relinked,
    stub,
)
from crawler.sinks.references import Role
from crawler.sinks.requisites import BYTES_READ_MAX
from crawler.sinks.sink import SinkError, Withdrawn, sink_error
from crawler.sinks.symbols import Symbols, drawings_used
from policies.scope import HOPS_MAX
from storage.safe_files import FILE_MODE, open_for_update
from storage.transient_faults import kind_of

_log = logging.getLogger("courtly.sinks")

MARK: Final = ".courtly"  # the folder by which a mirror is known; it holds what `close` needs
# Files that a browser shows as XML, and those of which it may look at the bytes.
_XML_ENDINGS: Final = frozenset({"svg", "xml", "rss", "atom"})
_STYLE_ENDING: Final = "css"
_UNKNOWN_ENDINGS: Final = frozenset({"part", "bin"})
# What a URL that redirects may be asked for as.
_COPIED: Final = (
    (Role.PART, None), (Role.PART, DRAWING), (Role.STYLE, None), (Role.SCRIPT, None),
)  # fmt: skip
_NAMES_KEPT: Final = 25_000  # some 4 MB
_HOSTS_LISTED: Final = 10_000  # in the mirror's first page


class Mirror:
    """The `mirror` sink. While it runs, links within a host lead to where their files will be;
    `close` looks what is there, and turns links to what is not back to the web."""

    def __init__(self, config: SinkConfig, *, mode: int = FILE_MODE) -> None:
        self._root = config.path
        self._mode = mode
        self._folder = Folder(config.path, mode)
        self._scripts = config.scripts
        self._fsync = config.fsync
        self._folders: set[str] = set()  # in which names are new since the last flush
        self._known: set[str] = set()  # names of files that are there
        self._withdrawn: set[str] = set()  # since the last flush
        self._lock: BinaryIO | None = None
        self._links = Journal(self._root / MARK / "links.jsonl", mode)
        self._aliases = Journal(self._root / MARK / "aliases.jsonl", mode)

    # ------------------------------------------------------------ life

    def open(self) -> None:
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise

    def _open(self) -> None:
        mark = self._root / MARK
        try:
            if self._root.exists() and not self._root.is_dir():
                raise SinkError(f"the sink {self._root} is no folder: it was not touched")
            if mark.is_symlink():
                raise SinkError(f"the sink {self._root} is led elsewhere by the link {mark}")
            if not mark.is_dir() and self._root.is_dir() and any(self._root.iterdir()):
                raise SinkError(
                    f"the sink {self._root} is a folder with other things in it: a mirror needs "
                    "one of its own"
                )
            self._folder.open()
            make_folder(mark, self._mode)
            self._lock = os.fdopen(open_for_update(mark / "lock", self._mode), "r+b")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._links.open()
            self._aliases.open()
        except BlockingIOError:
            raise SinkError(f"the sink {self._root} is being written by another crawl") from None
        except OSError as error:
            raise self._error(error) from error

    def _let_go(self) -> None:
        lock, self._lock = self._lock, None
        with contextlib.ExitStack() as all_of_it:  # whatever cannot be closed
            if lock is not None:
                all_of_it.callback(lock.close)
            all_of_it.callback(self._folder.close)
            all_of_it.callback(self._aliases.close)
            all_of_it.callback(self._links.close)
            all_of_it.callback(self._links.keep_none)

    def close(self, hurried: threading.Event) -> None:
        if self._lock is None:
            return
        try:
            self._remove_aliases()
            if not hurried.is_set():
                self._copy_aliases(hurried)
                self._relink(hurried)
                self._write_first_page()
        except OSError as error:
            if hurried.is_set() or kind_of(error) is None:
                self._let_go()
            raise self._error(error) from error
        except BaseException:
            self._let_go()
            raise
        self._let_go()

    def flush(self) -> None:
        try:
            self._remove_aliases()
            self._links.flush()
            self._aliases.flush()
            if self._fsync:
                for folder in self._folders:
                    self._folder.sync(folder)
            self._folders.clear()
        except OSError as error:
            raise self._error(error) from error

    def undo(self) -> None:
        """Files are written whole, and the same again; only the lists are taken back."""
        self._withdrawn.clear()
        self._links.undo()
        self._aliases.undo()

    # ------------------------------------------------------------ pages

    def put(self, page: CrawledPage) -> None:
        try:
            self._remove_aliases()  # not after it is there
            if page.redirect_url is not None:
                self._put_redirect(page.url, page.redirect_url)
            elif 200 <= page.status < 300 and page.body_read and page.directives.archive:
                self._put_body(page)
            elif page.again and not page.directives.archive:
                for name in self._files_of(page.url):
                    self._remove(name)
        except OSError as error:
            raise self._error(error) from error

    def _put_body(self, page: CrawledPage) -> None:
        declared = media_type(page.content_type)
        url, body = page.url, page.body
        role, ending = kind_by_type(declared, body)
        path = file_of(url, role, ending)
        # A browser goes by the name of a file, whatever was declared.
        shown_as = path.rpartition(".")[2]
        cut = False
        links = OfflineReferences(url, path, is_there=self._is_there, scripts=self._scripts)
        if shown_as in _XML_ENDINGS or (role is Role.PART and is_xml(declared, body)):
            cut = len(body) > XML_BYTES_MAX
            body = offline_xml(body, links)
        elif (
            role is Role.PAGE
            or shown_as in HTML_ENDINGS
            or (shown_as in _UNKNOWN_ENDINGS and is_markup(body))
        ):
            body = offline_page(body, page.content_type, links)
        elif role is Role.STYLE or shown_as == _STYLE_ENDING:
            cut = len(body) > BYTES_READ_MAX
            body = offline_style(body, page.content_type, links)
        else:
            body = in_manifest(declared, body, url, links) or body
        self._write(path, body)
        if cut:
            _log.warning("the mirror has only the beginning of %s, which is too long", url)
        if links.skipped:
            _log.warning(
                "the mirror has %d references of %s as they were: too many, too long, or too much"
                " to write",
                links.skipped,
                url,
            )
        drawings = drawings_used(body, path) if path.endswith(".html") else ()
        marked = [*links.marked, *(f"{USED}{name}" for name in drawings)]
        if marked:
            self._links.add([path, *marked])  # as they lead now, see `_relink`
        if role is not Role.PAGE and not has_ending(url):
            # a link to it leads where a page would be
            self._write_stub(file_of(url, Role.PAGE), path)

    def _put_redirect(self, url: str, target: str) -> None:
        place, there = file_of(url, Role.PAGE), file_of(target, Role.PAGE)
        if place.endswith(".html") and place != there:
            self._write_stub(place, there, url=target)
            if not self._is_there(there):
                self._links.add([place, target])
        self._aliases.add([url, target])

    def withdraw(self, page: Withdrawn) -> None:
        try:
            for name in self._files_of(page.url):
                if name.endswith(".html"):
                    self._write(name, notice(page.url, page.robots_url))
                else:
                    self._remove(name)
            self._withdrawn.add(page.url)
        except OSError as error:
            raise self._error(error) from error

    def _remove_aliases(self) -> None:
        """What redirected to pages that were withdrawn may have their bytes. One look at the list
        for all pages of a flush: it may be as long as they are many."""
        withdrawn, self._withdrawn = self._withdrawn, set()
        if not withdrawn:
            return
        for entry in self._aliases.entries():
            if len(entry) == 2 and entry[1] in withdrawn:
                for name in self._files_of(entry[0]):
                    if not name.endswith(".html"):
                        self._remove(name)

    def _files_of(self, url: str) -> list[str]:
        """All files that are there of a URL, whatever ending its types gave them."""
        path = file_of(url, Role.PAGE)
        if has_ending(url):
            return [path] if self._is_there(path) else []
        folder, _, name = path.rpartition("/")
        stem = name.removesuffix("html")
        names = self._folder.files(folder)
        return [f"{folder}/{name}" for name in names if name.startswith(stem)]

    def _remove(self, name: str) -> None:
        self._folder.remove(name)
        self._known.discard(name)

    # ------------------------------------------------------------ files

    def _is_there(self, name: str) -> bool:
        if name in self._known:
            return True
        found = self._folder.has(name)
        if found:
            self._know(name)
        return found

    def _know(self, name: str) -> None:
        if len(self._known) >= _NAMES_KEPT:
            self._known.clear()
        self._known.add(name)

    def _write_stub(self, name: str, to: str, *, url: str = "") -> None:
        """A page that leads to another file, which is that of `url` if one is given."""
        self._write(name, stub(relative(to, name), url))

    def _write(self, name: str, content: bytes) -> None:
        """Whole or not at all: a crash leaves the file that was there."""
        self._folder.write(name, content, draft=f"{MARK}/draft", fsync=self._fsync)
        folder = name.rpartition("/")[0]
        if folder:
            self._folders.add(folder)
        self._know(name)

    def _error(self, error: OSError) -> SinkError:
        return sink_error(self._root, error)

    # ------------------------------------------------------------ at the end

    def _copy_aliases(self, hurried: threading.Event) -> None:
        """What is asked for by a URL that redirects, such as an image, gets the target's bytes; a
        style sheet imports its target, for its references are relative to it. Of redirects to
        redirects the last comes first."""
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
            if name.endswith(".html") or self._is_there(name) or not self._is_there(source):
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
        """Links to files that never came lead to the web again, and those to files that did come
        lead to them; what still leads out is looked at again at the end of the next run. Images
        that turned out to be drawings have another ending, and pages get what they use of them.

        An entry is a file and the URLs of its references whose files were not there, those that
        lead to the web with WEB before them, those of images with IMAGE, and with USED the files
        of drawings of which it uses elements. A file whose references are right already is not
        touched."""
        symbols = Symbols(self._folder.read)
        self._links.keep_none()  # of what an attempt before this one kept
        for path, *marked in self._links.entries():
            if hurried.is_set():
                self._links.keep([path, *marked])
                continue
            images = {m.removeprefix(IMAGE) for m in marked if m.startswith(IMAGE)}
            drawings = {file_of(url, Role.PART) for url in images if self._is_there(drawing(url))}
            used = {m.removeprefix(USED) for m in marked if m.startswith(USED)}
            used_there = {n for n in used if self._is_there(n) or self._is_there(as_drawing(n))}
            urls = {m.removeprefix(WEB): m[:1] == WEB for m in marked if m[:1] not in (IMAGE, USED)}
            there = {url: self._is_there(file_of(url, Role.PAGE)) for url in urls}
            wrong = any(there[url] == leads_out for url, leads_out in urls.items())
            if wrong or drawings or used_there:
                self._relink_file(path, drawings, symbols if used_there else None)
            missing = [f"{WEB}{url}" for url, found in there.items() if not found]
            missing += [
                f"{IMAGE}{url}"
                for url in sorted(images)
                if not any(self._is_there(name) for name in (file_of(url, Role.PART), drawing(url)))
            ]
            missing += [f"{USED}{name}" for name in sorted(used - used_there)]
            if missing:
                self._links.keep([path, *missing])
        if symbols.skipped:
            _log.warning(
                "the mirror shows %d elements of drawings (`use`) when served only: too large, or"
                " too many in one page",
                symbols.skipped,
            )
        self._links.renew()

    def _relink_file(self, path: str, drawings: set[str], symbols: Symbols | None) -> None:
        content = self._folder.read(path)
        if content is None:
            return
        page = relinked(content, path, self._is_there, drawings)
        if symbols is not None:
            page = symbols.shown(content if page is None else page, path) or page
        if page is not None:
            self._write(path, page)

    def _write_first_page(self) -> None:
        hosts = sorted(
            folder.name
            for folder in self._root.iterdir()
            if folder.name != MARK and (folder / "index.html").is_file()
        )[:_HOSTS_LISTED]
        items = "".join(
            f'<li><a href="{html.escape(name)}/index.html">{html.escape(name)}</a></li>\n'
            for name in hosts
        )
        page = own_page("Mirror", f"<h1>Mirror</h1>\n<ul>\n{items}</ul>")
        self._write("index.html", page)
