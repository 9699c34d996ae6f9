"""The format of a file follows its name, and never contradicts it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from crawler.cli import main
from crawler.cli.output_format import chosen_format

KNOWN = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}


def test_the_name_or_the_option_decides() -> None:
    for given, name, chosen in [
        (None, None, "csv"),
        ("jsonl", None, "jsonl"),
        (None, "out", "csv"),
        ("jsonl", "out", "jsonl"),
        (None, "x.parquet", "parquet"),
        (None, "X.JSONL", "jsonl"),
        ("csv", "x.csv", "csv"),
        ("jsonl", "x.tmp", "jsonl"),
    ]:
        output = None if name is None else Path(name)
        assert chosen_format(given, output, KNOWN, default="csv") == chosen


@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        ("csv", "x.parquet", '--format csv: the suffix ".parquet" of --output means parquet'),
        (None, "x.xlsx", '".xlsx" is none of .csv, .jsonl, .parquet'),
        (None, "x.csv.gz", 'not be compressed as the suffix ".gz" says'),
        ("csv", "x.csv.gz", 'not be compressed as the suffix ".gz" says'),
    ],
)
def test_a_contradiction_and_an_unknown_suffix_are_refused(
    given: str | None, name: str, words: str
) -> None:
    with pytest.raises(click.UsageError) as refused:
        chosen_format(given, Path(name), KNOWN, default="csv")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "command",
    [
        ("export", "visited", "--output", "x.xlsx"),
        ("export", "visited", "--format", "csv", "--output", "x.parquet"),
        ("report", "broken", "--output", "x.pdf"),
        ("report", "broken", "--format", "text", "--output", "x.html"),
    ],
)
def test_before_anything_is_written(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "suffix" in result.stderr
    assert list(Path().iterdir()) == []
