"""Every error is reported as a sentence and an exit code."""

from __future__ import annotations

import click
import pytest

from crawler.cli.exit_codes import print_problems, reported_errors
from crawler.config import ConfigError
from storage.store import StoreError, StoreRefused


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            ConfigError("a.toml:1: crawl: no", "a.toml:2: no"),
            2,
            "a.toml:1: crawl: no\na.toml:2: no\n",
        ),
        (
            StoreRefused("crawl.db is held by another crawl."),
            2,
            "courtly: crawl.db is held by another crawl.\n",
        ),
        (StoreError("the disk is full."), 1, "courtly: the disk is full.\n"),
        (
            ExceptionGroup("", [ValueError("x"), ExceptionGroup("", [StoreError("full.")])]),
            1,
            "courtly: full.\n",
        ),
        (
            PermissionError(13, "Permission denied", "crawl.db"),
            1,
            "courtly: Permission denied: crawl.db\n",
        ),
        (OSError(28, "No space left on device"), 1, "courtly: no space left on device\n"),
        (ZeroDivisionError(), 1, "internal error (ZeroDivisionError); set COURTLY_DEBUG=1"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_codes_and_sentences(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left, reported_errors():
        raise error
    assert left.value.code == code
    assert words in capsys.readouterr().err


def test_a_broken_pipe_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left, reported_errors():
        raise BrokenPipeError
    assert left.value.code == 0
    assert capsys.readouterr().err == ""


def test_debug_mode_raises_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURTLY_DEBUG", "1")
    with pytest.raises(ZeroDivisionError), reported_errors():
        raise ZeroDivisionError


def test_errors_of_click_have_the_same_format(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left, reported_errors():
        raise click.NoSuchOption("--dbb", possibilities=["--db"])
    assert left.value.code == 2
    assert capsys.readouterr().err == "courtly: no such option '--dbb'. Did you mean '--db'?\n"


def test_only_problems_with_file_and_line_have_no_prefix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_problems(
        "crawl.toml:2: crawl.x: no", "the seed 'http://a.test:99' is none", "none.toml: no file"
    )
    assert capsys.readouterr().err.splitlines() == [
        "crawl.toml:2: crawl.x: no",
        "courtly: the seed 'http://a.test:99' is none",
        "courtly: none.toml: no file",
    ]
