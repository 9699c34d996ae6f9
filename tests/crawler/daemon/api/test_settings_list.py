"""The effective settings: sinks among them, as the config file writes them."""

from __future__ import annotations

from pathlib import Path

from crawler.config import load
from crawler.daemon.api.settings_list import effective_settings


def test_sinks_are_listed_with_their_keys_and_sources(tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    file.write_text(
        '[[sink]]\nkind = "jsonl"\npath = "pages.jsonl"\n'
        '[[sink]]\nkind = "warc"\npath = "archive.warc.gz"\nmax_file = "1MB"\nstatus = ["2xx"]\n'
    )
    config = load(file)
    first, second = (one for one in effective_settings(config, None) if one.key.startswith("sink."))
    assert first.key == "sink.1"
    assert first.value == {"kind": "jsonl", "path": "pages.jsonl"}
    assert (first.source, second.source) == (f"{file.name}:1", f"{file.name}:4")
    assert isinstance(second.value, dict)
    assert second.value["max_file"] == 1_000_000
    assert not any(one.key.startswith("sink.") for one in effective_settings(config, "a.test"))
