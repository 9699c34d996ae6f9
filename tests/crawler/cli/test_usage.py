"""Bad usage exits with code 2 and one sentence, before files are created or requests sent."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main
from crawler.cli.options import host_name
from crawler.documents import page_reader

HERE = "http://localhost/"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def courtly(*args: str) -> Result:
    result = CliRunner().invoke(main, args)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def refused(*args: str) -> str:
    result = courtly(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert list(Path().iterdir()) in ([], [Path("crawl.toml")])
    return result.stderr


def test_help_lists_the_commands() -> None:
    result = courtly("--help")
    assert result.exit_code == 0
    commands = (
        *("crawl", "run", "show", "why", "retry", "host", "seeds", "status"),
        *("db", "config", "demo"),
    )
    for command in commands:
        assert f"\n  {command} " in result.stdout
        assert courtly(command, "--help").exit_code == 0


def test_the_version_and_the_reader() -> None:
    version = f"courtly {importlib.metadata.version('courtly')}"
    assert courtly("--version").stdout == f"{version}\nreader of pages: {page_reader.name()}\n"


def test_a_reader_that_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(page_reader.VARIABLE, "rust")
    page_reader.name.cache_clear()
    try:
        for arguments in (["--version"], ["config", "show"]):
            result = courtly(*arguments)
            assert result.exit_code == 2
            assert result.stderr == (
                'courtly: COURTLY_READER is "rust"; it must be "pure" or "native"\n'
            )
    finally:
        monkeypatch.undo()
        page_reader.name.cache_clear()


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from crawler.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'asyncio', 'aiohttp', 'rich', 'msgspec', 'ada_url', 'aiosqlite'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_crawl_refuses() -> None:
    for args, words in [
        ((), "there is nothing to crawl"),
        (("example.com",), "the seed 'example.com' is not an absolute URL; did you mean https://"),
        (("http://[::1",), "the seed 'http://[::1' cannot be parsed"),
        (("@none.txt",), "none.txt: there is no such file"),
        (("https://example.com/",), "set crawl.user_agent (or --user-agent)"),
        (("https://example.com/", "--user-agent", "bot/1"), '"bot/1" contains no contact'),
        ((HERE, "--user-agent", "a\nb"), "--user-agent: crawl.user_agent: must be one"),
        ((HERE, "--delay", "-1"), "--delay: politeness.delay: a duration is"),
        ((HERE, "--delay", "soon"), "--delay: politeness.delay: a duration is"),
        ((HERE, "--max-pages", "x"), "--max-pages: must be a whole number or inf"),
        ((HERE, "--max-depth", "-1"), "--max-depth: crawl.max_depth: must be at least 0"),
        ((HERE, "--dialect", "gogle"), "--dialect: robots.dialect: must be"),
        ((HERE, "--allow", "home"), "--allow: network.allow: must be an address"),
        ((HERE, "--follow", "all"), "invalid value for '--follow': \"all\" is not one of host"),
        ((HERE, "--db", "sqlite:"), "--db: storage.url: must name a file"),
        ((HERE, "--db", "postgresql://me:pw@db/x"), "must not contain a password"),
        ((HERE, "--db", "postgresql://db/x?sslmod=a"), "--db: storage.url: parameter 1 of the URL"),
        ((HERE, "--config", "none.toml"), "none.toml: there is no such file"),
        (("--colour",), "no such option"),
    ]:  # fmt: skip
        text = refused("crawl", *args)
        assert words in text
        assert "Traceback" not in text, (args, words)


def test_read_only_commands_create_no_database() -> None:
    for args in [
        ("show", "visited"),
        ("show", "visited", "--db", "other.db"),
        ("why", "http://a.test/"),
        ("retry", "failed"),
        ("db", "info"),
        ("db", "check"),
        ("db", "vacuum"),
        ("status",),
        ("host", "pause", "a.test"),
        ("host", "slow", "a.test", "--delay", "1"),
    ]:
        assert "there is no database" in refused(*args)


def test_steering_refuses() -> None:
    for args, words in [
        (("run",), "missing argument 'CONFIG'"),
        (("run", "none.toml"), "none.toml: there is no such file"),
        (("host", "pause"), "missing argument 'HOST'"),
        (("host", "pause", "a/b"), '"a/b" is not a host'),
        (("host", "stop", "a.test"), "no such command"),
        (("host", "slow", "a.test", "--delay", "soon"), "--delay: a duration is"),
        (("seeds", "add"), "missing argument 'URL...'"),
        (("seeds", "add", "a.test"), "the seed 'a.test' is not an absolute URL"),
        (("seeds", "add", "http://a.test/", "--priority", "inf"), "must be a finite number"),
        (("seeds", "add", "@none.txt"), "none.txt: there is no such file"),
    ]:
        text = refused(*args)
        assert words in text
        assert "Traceback" not in text, (args, words)


def test_show_refuses_unknown_values() -> None:
    assert '"everything" is not one of visited, blocked' in refused("show", "everything")
    first, second = refused("show", "visted").splitlines()
    assert first.startswith("courtly: invalid value for 'VIEW': \"visted\" is not one of visited, ")
    assert first.endswith('; did you mean "visited"?')
    assert second == "  See `main show --help`."
    assert "missing argument 'VIEW'. Choose one of visited" in refused("show")
    assert "missing argument 'WHAT'. Choose one of failed, quarantined" in refused("retry")
    assert "omit --host" in refused("show", "skipped", "--host", "a.test")
    assert '"a b" is not a host' in refused("show", "visited", "--host", "a b")
    assert "invalid value for '--limit'" in refused("show", "visited", "--limit", "0")


def test_a_misspelt_command_gets_a_suggestion() -> None:
    assert refused("shwo") == 'courtly: there is no command "shwo"; did you mean "show"?\n'
    assert "'lint'" in refused("robots", "lnt")
    assert "no such option '--bogus'" in refused("--bogus")


# ---------------------------------------------------------------- config


def test_a_valid_config_is_summarized() -> None:
    Path("crawl.toml").write_text(
        '[crawl]\nuser_agent = "mbot/1.0 (+https://example.com/bot)"\n'
        'seeds = ["https://example.com/"]\n[site."*.example.org"]\ndelay = 5\n'
        '[revisit]\nmode = "fixed"\n[[sink]]\nkind = "warc"\npath = "archive.warc.gz"\n'
    )
    result = courtly("config", "check", "crawl.toml")
    assert result.exit_code == 0
    assert result.stdout.startswith("crawl.toml: ok\n")
    assert "*.example.org" in result.stdout
    assert "  revisits     fixed, 7 d" in result.stdout
    assert "  sink         warc: archive.warc.gz" in result.stdout
    assert (
        'warning: crawl.toml:2: crawl.user_agent: the product token "mbot" has fewer'
        in result.stderr
    )


def test_a_config_that_could_not_start_gets_a_warning() -> None:
    Path("crawl.toml").write_text('crawl.seeds = ["https://example.com/"]\n')
    result = courtly("config", "check", "crawl.toml")
    assert result.exit_code == 0
    assert "warning: https://example.com/ is not on this machine" in result.stderr


def test_a_database_without_its_password_gets_a_warning() -> None:
    Path("crawl.toml").write_text(
        '[storage]\nurl = "postgresql://me@db.test/x"\npassword = "file:none"\n'
    )
    result = courtly("config", "check", "crawl.toml")
    assert result.exit_code == 0
    assert "  database     postgresql://me@db.test/x\n" in result.stdout
    assert (
        "warning: crawl.toml:3: storage.password: none cannot be read: No such file or directory"
        in result.stderr
    )


def test_all_problems_of_a_config_are_listed() -> None:
    Path("crawl.toml").write_text("[crawl]\nmax_page = 5\nconcurrency = 0\n")
    assert refused("config", "check", "crawl.toml").splitlines() == [
        'crawl.toml:2: crawl.max_page: there is no such key; did you mean "max_pages"?',
        "crawl.toml:3: crawl.concurrency: must be at least 1, not 0",
    ]


def test_a_missing_seed_file_is_listed_with_the_other_problems() -> None:
    Path("crawl.toml").write_text(
        '[crawl]\nseeds = ["@none.txt"]\nconcurrency = 0\n[[sink]]\nkind = "mirror"\npath = "a"\n'
    )
    missing = "crawl.toml:2: crawl.seeds: none.txt: there is no such file"
    bad = "crawl.toml:3: crawl.concurrency: must be at least 1, not 0"
    told = refused("config", "check", "crawl.toml").splitlines()
    assert told == [missing, bad]

    Path("crawl.toml").write_text('[crawl]\nseeds = ["@none.txt"]\n')
    for command in (("config", "check", "crawl.toml"), ("crawl", "--config", "crawl.toml")):
        assert refused(*command).splitlines() == [missing]


def test_the_schema_is_json() -> None:
    assert json.loads(courtly("config", "schema").stdout)["title"] == "courtly's config"


def test_a_reader_that_exits_early_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "crawler.cli", "config", "schema"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), errors) == (0, b"")


def test_hosts_are_normalized_as_in_the_store() -> None:
    for text, name in [
        ("Example.COM", "example.com"),
        ("example.com:8080", "example.com"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("::1", "::1"),
        ("[::1]:80", "::1"),
    ]:
        assert host_name(text) == name


def test_commands_on_the_database_work_without_a_broken_config() -> None:
    for args in [
        ["pause"], ["status"], ["host", "pause", "a.test"], ["retry", "failed"], ["show", "failed"],
        ["db", "info"],
    ]:  # fmt: skip
        Path("crawl.toml").write_text("[crawl]\nseeds = 1\n", encoding="utf-8")
        for db in ([], ["--db", "crawl.db"]):
            problem, hint = refused(*args, "--config", "crawl.toml", *db).splitlines()
            assert problem.startswith("crawl.toml:2: crawl.seeds: "), args
            assert (
                hint
                == "  This command needs only the database: name it with --db, without --config."
            ), args


def test_commands_that_need_the_config_do_not_suggest_to_omit_it() -> None:
    Path("crawl.toml").write_text("[crawl]\nseeds = 1\n", encoding="utf-8")
    assert "needs only the database" not in refused("why", "a.test", "--config", "crawl.toml")


def test_the_help_says_what_happens_if_nothing_matches() -> None:
    for command in (["host"], ["retry"], ["drop"]):
        assert "code is 0" in " ".join(courtly(*command, "--help").stdout.split())
