"""Rows of a view for other programs: CSV, JSON lines, Parquet; some thousand at a time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import BinaryIO, Final

import msgspec

from storage.base import Row
from storage.rows import VIEWS

_ROWS_AT_ONCE: Final = 2_000  # written in one go
_ROWS_PER_GROUP: Final = 50_000  # of a Parquet file: its readers skip whole groups
# What a spreadsheet would compute (OWASP, CSV injection), and the same in full width.
_FORMULA: Final = re.compile(r"[=+\-@\t\r＝＋－＠]")
_FLAGS: Final = frozenset({"indexable", "followable", "archivable", "withdrawn", "found"})
_WHOLE: Final = frozenset({"status", "body_bytes", "depth", "line", "attempts", "visits"})
_REAL: Final = frozenset(
    {
        "fetched_at", "elapsed_s", "blocked_at", "last_at", "checked_at", "changed_at",
        "next_visit_at",
    }
)  # fmt: skip


def cell_text(value: str) -> str:
    """A text that stays one in a spreadsheet: one that would begin a formula gets a `'` first."""
    return f"'{value}" if _FORMULA.match(value.lstrip()) else value


async def write(view: str, rows: AsyncIterator[Row], how: str, out: BinaryIO) -> int:
    """Write every row in the format `csv`, `jsonl` or `parquet`; give how many. Raises OSError."""
    columns = VIEWS[view]
    writer = _WRITERS[how](columns, out)
    count = 0
    batch: list[Row] = []
    async for row in rows:
        batch.append(row)
        if len(batch) >= _ROWS_AT_ONCE:
            writer.write(batch)
            count += len(batch)
            batch = []
    writer.write(batch)
    writer.close()
    out.flush()
    return count + len(batch)


class _Csv:
    """RFC 4180, UTF-8, a first line with the columns; what is not there is empty."""

    def __init__(self, columns: Sequence[str], out: BinaryIO) -> None:
        self._columns = columns
        self._out = out
        self._lines = io.StringIO()
        self._csv = csv.writer(self._lines)
        self._csv.writerow(columns)

    def write(self, rows: Sequence[Row]) -> None:
        self._csv.writerows([_cell(row[name]) for name in self._columns] for row in rows)
        self._out.write(self._lines.getvalue().encode("utf-8", "replace"))
        self._lines.seek(0)
        self._lines.truncate()

    def close(self) -> None:
        pass


def _cell(value: object) -> object:
    return cell_text(value) if isinstance(value, str) else value


class _JsonLines:
    def __init__(self, columns: Sequence[str], out: BinaryIO) -> None:
        self._columns = columns
        self._out = out
        self._encode = msgspec.json.Encoder().encode_lines

    def write(self, rows: Sequence[Row]) -> None:
        self._out.write(self._encode([dict(row) for row in rows]))

    def close(self) -> None:
        pass


class _Parquet:
    """Types by column: whole numbers, floating point times in Unix seconds, yes and no, texts."""

    def __init__(self, columns: Sequence[str], out: BinaryIO) -> None:
        import pyarrow as pa  # the extra `parquet`
        from pyarrow import parquet

        types: Mapping[str, object] = {
            **dict.fromkeys(_FLAGS, pa.bool_()),
            **dict.fromkeys(_WHOLE, pa.int64()),
            **dict.fromkeys(_REAL, pa.float64()),
        }
        self._arrow = pa
        self._schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
        self._file = parquet.ParquetWriter(out, self._schema, compression="zstd")
        self._rows: list[dict[str, object]] = []

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            values = dict(row)
            for name in _FLAGS & values.keys():
                if values[name] is not None:
                    values[name] = bool(values[name])
            self._rows.append(values)
        if len(self._rows) >= _ROWS_PER_GROUP:
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
