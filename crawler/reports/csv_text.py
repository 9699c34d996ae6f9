"""CSV (RFC 4180): the one writer of all CSV files and of CSV on standard output."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Final

from crawler.explain.site_text import for_csv

LINE_END: Final = "\r\n"


def csv_text(rows: Iterable[Iterable[object]], *, line_end: str = LINE_END) -> str:
    """Lines of CSV. Strings become cells by `for_csv`; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=line_end)
    writer.writerows([for_csv(value) for value in row] for row in rows)
    return text.getvalue()
