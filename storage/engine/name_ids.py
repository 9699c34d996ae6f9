"""Ids of values that the database stores once: hosts, origins, strings, verdicts, page kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from storage.columns import hostname_of
from storage.engine.statements import Statements, Values
from storage.url_records import Blocked, BlockReason, Visited

_KEPT_MAX: Final = 20_000  # of each kind of name in memory: some 5 MB


class OriginRow(NamedTuple):
    id: int
    slot: int | None  # None: known only as the target of a redirect
    slot_name: str | None


class VerdictKey(NamedTuple):
    """The values that blocked URLs share."""

    reason: str
    dialect: str
    rule: str | None
    line: int | None
    robots_url: str
    body: int | None  # id of the robots.txt body that decided

    @classmethod
    def of(cls, block: Blocked, body: int | None) -> VerdictKey:
        return cls(str(block.reason), block.dialect, block.rule, block.line, block.robots_url, body)

    def for_redirect(self) -> VerdictKey:
        """The verdict on a URL that redirects to one with this verdict."""
        return self._replace(reason=str(BlockReason.REDIRECT))


class PageKind(NamedTuple):
    """The values that pages share."""

    status: int
    directives: int  # 1 indexable, 2 followable, 4 archivable; from 8 on a `Looked`
    content_type: str | None
    usage: str | None
    cut: str | None

    @classmethod
    def of(cls, page: Visited) -> PageKind:
        directives = page.indexable + 2 * page.followable + 4 * page.archivable + 8 * page.looked
        return cls(page.status, directives, page.content_type, page.usage, page.cut)


class NameIds:
    """Looks up names, inserts new ones, and caches a bounded number. For the store's thread
    only."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._origins: dict[str, OriginRow] = {}
        self._texts: dict[str, int] = {}
        self._verdicts: dict[VerdictKey, int] = {}
        self._kinds: dict[PageKind, int] = {}
        self._bodies: dict[int, int | None] = {}
        self.new_slots = 0  # inserted since this was last reset

    def forget(self) -> None:
        """Empty the caches of what other sessions may have changed."""
        self._origins.clear()
        self._bodies.clear()

    # ------------------------------------------------------------ hosts and origins

    def slots(self, names: Iterable[str], now_s: float) -> dict[str, int]:
        """Return the ids of hosts; unknown ones are inserted, and may be contacted from now on."""
        wanted = [(name,) for name in dict.fromkeys(names)]
        found = dict(self._sql.read_many(list[tuple[str, int]], "slot_ids", wanted))
        new = {name: self._sql.ids.slot(name) for (name,) in wanted if name not in found}
        self._sql.many("new_slots", [(key, name) for name, key in new.items()], now_s, now_s)
        if new and self._sql.shared:  # another session may have been faster
            mine: list[Values] = [(name,) for name in new]
            stored = dict(self._sql.read_many(list[tuple[str, int]], "slot_ids", mine))
            self.new_slots += sum(stored[name] == key for name, key in new.items())
            return found | stored
        self.new_slots += len(new)
        return found | new

    def find_origins(self, names: Iterable[str]) -> dict[str, OriginRow]:
        """Return those origins that are known."""
        cached, wanted = {}, []
        for name in names:
            origin = self._origins.get(name)
            if origin is None:
                wanted.append((name,))
            else:
                cached[name] = origin
        shape = list[tuple[str, int, int | None, str | None]]
        found = {
            name: OriginRow(key, slot, slot_name)
            for name, key, slot, slot_name in self._sql.read_many(shape, "origin_ids", wanted)
        }
        self._remember(found)
        return cached | found

    def origins(self, slots: Mapping[str, str | None], now_s: float) -> dict[str, OriginRow]:
        """Return origins by name. `slots`: the host that an origin joins if it belongs to none
        yet."""
        found = self.find_origins(slots)
        homeless = {
            name: slot
            for name, slot in slots.items()
            if name not in found or (found[name].slot is None and slot is not None)
        }
        if not homeless:
            return found
        ids = self.slots((slot for slot in homeless.values() if slot is not None), now_s)
        new, moved = [], []
        for name, slot in homeless.items():
            slot_id = None if slot is None else ids[slot]
            if name in found:
                origin = OriginRow(found[name].id, slot_id, slot)
                moved.append((origin.id, slot_id))
            else:
                origin = OriginRow(self._sql.ids.origin(name, slot_id), slot_id, slot)
                new.append((origin.id, name, hostname_of(name), slot_id))
            found[name] = origin
            self._remember({name: origin})
        self._sql.many("new_origins", new)
        self._sql.many("home_origins", moved)
        if self._sql.shared:  # another session may have been faster
            for name in homeless:
                self._origins.pop(name, None)
            return found | self.find_origins(homeless)
        return found

    def move_origin(self, origin: int, slot: int) -> None:
        self._sql.many("move_origin", [(origin, slot)])
        self.forget_origins()

    def forget_origins(self) -> None:
        """Empty the cache of origins. Rare, so an index by id would not pay."""
        self._origins.clear()

    def _remember(self, origins: Mapping[str, OriginRow]) -> None:
        if len(self._origins) + len(origins) > _KEPT_MAX:
            self._origins.clear()
        self._origins.update(origins)

    # ------------------------------------------------------------ strings and verdicts

    def texts(self, texts: Iterable[str]) -> dict[str, int]:
        """Return the ids of content types and errors."""
        found, wanted = {}, []
        for text in dict.fromkeys(texts):
            key = self._texts.get(text)
            if key is None:
                wanted.append((text,))
            else:
                found[text] = key
        if not wanted:
            return found
        read = dict(self._sql.read_many(list[tuple[str, int]], "text_ids", wanted))
        new = []
        for (text,) in wanted:
            if text not in read:
                read[text] = self._sql.ids.text()
                new.append((read[text], text))
        self._sql.many("new_texts", new)
        if new and self._sql.shared:  # another session may have been faster
            read |= dict(
                self._sql.read_many(list[tuple[str, int]], "text_ids", [(text,) for _, text in new])
            )
        if len(self._texts) + len(read) > _KEPT_MAX:
            self._texts.clear()
        self._texts.update(read)
        return found | read

    def kind(self, kind: PageKind) -> int:
        """Return the id of a page kind."""
        key = self._kinds.get(kind)
        if key is not None:
            return key
        shared = [text for text in kind[2:] if isinstance(text, str)]
        texts = self.texts(shared)
        values = (
            kind.status, kind.directives,
            None if kind.content_type is None else texts[kind.content_type],
            None if kind.usage is None else texts[kind.usage],
            None if kind.cut is None else texts[kind.cut],
        )  # fmt: skip
        row = self._find_or_insert("kind_id", "new_kind", values)
        if len(self._kinds) >= _KEPT_MAX:
            self._kinds.clear()
        key = int(row[0])  # type: ignore[arg-type]
        self._kinds[kind] = key
        return key

    def _find_or_insert(self, find: str, insert: str, values: Values) -> Values:
        sql = self._sql
        # Found the second time if another session was faster to insert it.
        row = sql.row(find, *values) or sql.row(insert, *values) or sql.row(find, *values)
        assert row is not None
        return row

    def body_of(self, origin: int) -> int | None:
        """Return the id of the robots.txt body that applies at an origin."""
        if origin not in self._bodies:
            if len(self._bodies) >= _KEPT_MAX:
                self._bodies.clear()
            row = self._sql.row("body_of_copy", origin)
            self._bodies[origin] = int(row[0]) if row and row[0] is not None else None
        return self._bodies[origin]

    def forget_bodies(self) -> None:
        """Forget which bodies apply, where other sessions may have replaced them."""
        if self._sql.shared:
            self._bodies.clear()

    def forget_body(self, origin: int) -> None:
        self._bodies.pop(origin, None)

    def verdict(self, verdict: VerdictKey) -> int:
        """Return the id of a verdict."""
        key = self._verdicts.get(verdict)
        if key is not None:
            return key
        values = (
            verdict.robots_url, verdict.reason, verdict.dialect, verdict.rule, verdict.line,
            verdict.body,
        )  # fmt: skip
        row = self._find_or_insert("verdict_id", "new_verdict", values)
        if len(self._verdicts) >= _KEPT_MAX:
            self._verdicts.clear()
        key = int(row[0])  # type: ignore[arg-type]
        self._verdicts[verdict] = key
        return key
