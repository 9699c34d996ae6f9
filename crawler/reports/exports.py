"""Write the rows of a view as CSV, JSON lines or Parquet, a few thousand at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import BinaryIO, Final

import msgspec

from crawler.explain.formatting import json_printable
from crawler.explain.site_text import csv_text
from storage.columns import VIEWS
from storage.store import Row

_BATCH_ROWS: Final = 2_000  # written at a time
_GROUP_ROWS: Final = 50_000  # per row group of a Parquet file; readers skip whole groups
_BOOLEANS: Final = frozenset({"indexable", "followable", "archivable", "withdrawn", "found"})
_INTEGERS: Final = frozenset({"status", "body_bytes", "depth", "line", "attempts", "visits"})
_FLOATS: Final = frozenset(
    {
        "fetched_at", "elapsed_s", "blocked_at", "last_at", "checked_at", "changed_at",
        "next_visit_at",
    }
)  # fmt: skip


async def write(view: str, rows: AsyncIterator[Row], how: str, out: BinaryIO) -> int:
    """Write every row in the format `csv`, `jsonl` or `parquet`. Return their number. Raises
    OSError."""
    writer = _WRITERS[how](VIEWS[view], out)
    count = 0
    batch: list[Row] = []
    async for row in rows:
        batch.append(row)
        if len(batch) >= _BATCH_ROWS:
            writer.write(batch)
            count += len(batch)
            batch = []
    writer.write(batch)
    writer.close()
    out.flush()
    return count + len(batch)


class _JsonLines:
    def __init__(self, _columns: Sequence[str], out: BinaryIO) -> None:
        self._out = out
        self._encode = msgspec.json.Encoder().encode_lines

    def write(self, rows: Sequence[Row]) -> None:
        lines = self._encode([dict(row) for row in rows])
        if not lines.isascii() or b"\x7f" in lines:
            lines = json_printable(lines.decode("utf-8", "replace")).encode()
        self._out.write(lines)

    def close(self) -> None:
        pass


class _Csv:
    """RFC 4180, UTF-8, with a header line; missing values are empty."""

    def __init__(self, columns: Sequence[str], out: BinaryIO) -> None:
        self._columns = columns
        self._out = out
        self._write([columns])

    def write(self, rows: Sequence[Row]) -> None:
        self._write([row[name] for name in self._columns] for row in rows)

    def _write(self, rows: Iterable[Iterable[object]]) -> None:
        self._out.write(csv_text(rows).encode("utf-8", "replace"))

    def close(self) -> None:
        pass


class _Parquet:
    """Booleans, integers, floating-point numbers (times in Unix seconds) and strings, by column."""

    def __init__(self, columns: Sequence[str], out: BinaryIO) -> None:
        import pyarrow as pa  # the extra `parquet`
        from pyarrow import parquet

        types: Mapping[str, object] = {
            **dict.fromkeys(_BOOLEANS, pa.bool_()),
            **dict.fromkeys(_INTEGERS, pa.int64()),
            **dict.fromkeys(_FLOATS, pa.float64()),
        }
        self._arrow = pa
        self._schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
        self._file = parquet.ParquetWriter(out, self._schema, compression="zstd")
        self._rows: list[dict[str, object]] = []

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            values = dict(row)
            for name in _BOOLEANS & values.keys():
                if values[name] is not None:
                    values[name] = bool(values[name])
            self._rows.append(values)
        if len(self._rows) >= _GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        table = self._arrow.Table.from_pylist(self._rows, schema=self._schema)
        self._file.write_table(table)
        self._rows = []

    def close(self) -> None:
        if self._rows:
            self._write_group()
        self._file.close()


_WRITERS: Final[Mapping[str, type[_Csv | _JsonLines | _Parquet]]] = {
    "csv": _Csv,
    "jsonl": _JsonLines,
    "parquet": _Parquet,
}
