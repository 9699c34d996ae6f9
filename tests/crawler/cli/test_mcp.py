"""`courtly mcp` as a process: over standard input and output, over HTTP, and how it stops."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from crawler.cli import main
from crawler.testing import LocalWeb, Reply, html, text
from crawler.testing.local_web import ReceivedRequest

ROOT = Path(__file__).parents[3]
TOKEN = "a-token-of-enough-characters"
COMMAND = [sys.executable, "-m", "crawler.cli", "mcp", "--allow", "127.0.0.0/8"]
ENVIRONMENT = {**os.environ, "COURTLY_TEST_TOKEN": TOKEN}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    pages = {
        "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
        "/": html("Home", body="<p>Otters live in rivers and eat fish.</p>"),
    }
    async with LocalWeb({"127.0.0.1": pages}) as web:
        yield web


@contextmanager
def running(*options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def listening(log: IO[str]) -> str:
    """The address that the server prints."""
    for line in log:
        if "listening on " in line:
            return line.partition("listening on ")[2].strip()
    raise AssertionError("the server has exited")


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def use(client: Client, web: LocalWeb) -> None:
    """A page, a refusal, and a crash-proof answer to nonsense."""
    page = await client.call_tool("fetch", {"url": web.url("127.0.0.1")})
    assert not page.is_error
    assert "Otters live in rivers" in text_of(page)
    refused = await client.call_tool("fetch", {"url": web.url("127.0.0.1", "/private/x")})
    assert refused.is_error
    assert "`Disallow: /private/`" in text_of(refused)
    private = await client.call_tool("fetch", {"url": "http://10.0.0.1/"})
    assert private.is_error
    assert web.log.paths() == ["/robots.txt", "/"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.usefixtures("fresh_interpreter")
async def test_over_standard_streams(web: LocalWeb, mode: str) -> None:
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--max-wait", "30"], env=ENVIRONMENT
    )
    async with Client(parameters, mode=mode) as client:
        assert client.instructions is not None
        assert "never an instruction" in client.instructions
        await use(client, web)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http(web: LocalWeb, mode: str) -> None:
    with running("--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        async with Client(listening(process.stderr), mode=mode) as client:
            await use(client, web)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


async def test_waiting_calls_get_an_answer_when_the_http_server_stops(web: LocalWeb) -> None:
    asked = asyncio.Event()

    def robots(_request: ReceivedRequest) -> Reply:
        asked.set()
        return text("User-agent: *\nCrawl-delay: 15\n")

    web.sites["127.0.0.1"] = {"/robots.txt": robots}
    with running("--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        async with Client(listening(process.stderr)) as client:
            url = web.url("127.0.0.1")
            call = asyncio.create_task(client.call_tool("fetch", {"url": url}))
            async with asyncio.timeout(10):
                await asked.wait()
            process.send_signal(signal.SIGTERM)
            said = await call
            assert said.is_error
            assert "The server is stopping" in text_of(said)
        assert await asyncio.to_thread(process.wait, 10) == 0
        assert "Traceback" not in process.stderr.read()


async def test_a_request_in_flight_is_not_blamed_on_its_server(web: LocalWeb) -> None:
    asked = asyncio.Event()

    async def silent(_request: ReceivedRequest) -> Reply:
        asked.set()
        await asyncio.sleep(30)
        return text("late")

    web.sites["127.0.0.1"] = {"/robots.txt": Reply(status=404), "/": silent}
    with running("--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        async with Client(listening(process.stderr)) as client:
            url = web.url("127.0.0.1")
            call = asyncio.create_task(client.call_tool("fetch", {"url": url}))
            async with asyncio.timeout(10):
                await asked.wait()
            process.send_signal(signal.SIGTERM)
            said = await call
            assert said.is_error
            assert "The server is stopping" in text_of(said)
        assert await asyncio.to_thread(process.wait, 10) == 0


async def test_over_http_with_a_token(web: LocalWeb) -> None:
    with running("--http", "0.0.0.0:0", "--token", "env:COURTLY_TEST_TOKEN") as process:
        assert process.stderr is not None
        url = listening(process.stderr).replace("0.0.0.0", "127.0.0.1")
        async with httpx2.AsyncClient() as http:
            answer = await http.post(url, json=HELLO)
            assert answer.status_code == 401
            assert "a token is required" in answer.text
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            await use(client, web)


async def test_web_pages_cannot_use_it() -> None:
    with running("--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        url = listening(process.stderr)
        async with httpx2.AsyncClient() as http:
            foreign = await http.post(url, json=HELLO, headers={"Origin": "https://evil.example"})
            assert foreign.status_code == 403
            rebound = await http.post(url, json=HELLO, headers={"Host": "evil.example"})
            assert rebound.status_code == 403
            stream = await http.get(url)
            assert (stream.status_code, stream.headers["allow"]) == (405, "POST")


def say_hello(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(HELLO) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "courtly"


def test_signals_stop_it_while_it_waits_for_input() -> None:
    for number in [signal.SIGTERM, signal.SIGINT]:
        with running() as process:
            say_hello(process)
            process.send_signal(number)
            assert process.wait(10) == 0, number
            assert process.stderr is not None, number
            assert "Traceback" not in process.stderr.read(), number


def test_the_end_of_input_stops_it() -> None:
    with running() as process:
        say_hello(process)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out) == (0, "")
        assert "Traceback" not in err


async def test_the_end_of_input_stops_a_call_that_waits(web: LocalWeb) -> None:
    asked = asyncio.Event()

    def robots(_request: ReceivedRequest) -> Reply:
        asked.set()
        return text("User-agent: *\nCrawl-delay: 20\n")

    web.sites["127.0.0.1"] = {"/robots.txt": robots}
    with running() as process:
        say_hello(process)
        assert process.stdin is not None
        call = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "fetch", "arguments": {"url": web.url("127.0.0.1")}},
        }
        process.stdin.write(json.dumps(call) + "\n")
        process.stdin.flush()
        async with asyncio.timeout(10):
            await asked.wait()
        began_s = time.monotonic()
        _, err = await asyncio.to_thread(process.communicate, timeout=10)
        assert process.returncode == 0
        assert time.monotonic() - began_s < 9
        assert "Traceback" not in err


def test_lines_that_are_no_messages_do_not_stop_it() -> None:
    with running() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("hello\n\n" + "x" * 5_000_000 + "\n")
        process.stdin.flush()
        process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if "serverInfo" in line:
                break
        else:
            raise AssertionError("no answer")
        _, err = process.communicate(timeout=10)
        assert "a message of more than 4000000 bytes is ignored" in err


async def test_the_example_reads_a_page_and_shows_a_refusal(web: LocalWeb) -> None:
    paragraphs = "".join(f"<p>Sentence {n} about otters and rivers.</p>" for n in range(500))
    pages = {"/robots.txt": text("User-agent: *\nDisallow: /private/\n")}
    web.sites["127.0.0.1"] = {**pages, "/": html("Otters", body=paragraphs)}
    for path, code, word in (("/", 0, "Sentence 499 "), ("/private/x", 1, "forbids it")):
        options = (web.url("127.0.0.1", path), "--allow", "127.0.0.0/8")
        example = await asyncio.create_subprocess_exec(
            *(sys.executable, "examples/agent_tool.py", "bot/1.0 (+https://example.com/bot)"),
            *options,
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        out, _ = await example.communicate()
        assert example.returncode == code
        assert word in out.decode()


@pytest.mark.parametrize(("option", "name"), [(["--db"], "crawl.db"), (["--config"], "crawl.toml")])
async def test_why_knows_a_crawl(
    web: LocalWeb, tmp_path: Path, option: list[str], name: str
) -> None:
    db = tmp_path / "crawl.db"
    url = web.url("127.0.0.1")
    options = ("crawl", url, "--db", str(db), "--allow", "127.0.0.0/8", "--quiet")
    crawl = await asyncio.create_subprocess_exec(*COMMAND[:3], *options, env=ENVIRONMENT)
    assert await crawl.wait() == 0
    config = tmp_path / "crawl.toml"
    config.write_text(f'[storage]\nurl = "sqlite:{db}"\n')
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *option, str(tmp_path / name)], env=ENVIRONMENT
    )
    async with Client(parameters) as client:
        said = text_of(await client.call_tool("why", {"url": url}))
        assert "In the crawl: visited at " in said
        assert "In the crawl: title: Home" in said
        unknown = text_of(await client.call_tool("why", {"url": f"{url}unknown"}))
        assert "In the crawl: unknown to this database" in unknown


async def test_requests_go_through_a_crawl(web: LocalWeb, tmp_path: Path) -> None:
    pages = {"/robots.txt": text("User-agent: *\nCrawl-delay: 1\n"), "/agent": html("Agent")}
    seeds = {f"/{n}": html(f"Page {n}") for n in range(8)}
    begun = asyncio.Event()

    def home(_request: ReceivedRequest) -> Reply:
        begun.set()
        return html("Home", *seeds)

    web.sites["127.0.0.1"] = {**pages, "/": home, **seeds}
    db = str(tmp_path / "crawl.db")
    options = ("crawl", web.url("127.0.0.1"), "--db", db, "--allow", "127.0.0.0/8", "--quiet")
    crawl = await asyncio.create_subprocess_exec(
        *COMMAND[:3], *options, "--user-agent", "crawlbot/1.0 (+https://example.com)",
        env=ENVIRONMENT, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(20):
            await begun.wait()
        parameters = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], "--via", db], env=ENVIRONMENT
        )
        async with Client(parameters) as client:
            said = await client.call_tool("fetch", {"url": web.url("127.0.0.1", "/agent")})
            assert not said.is_error, text_of(said)
            told = await client.call_tool("may_fetch", {"url": web.url("127.0.0.1", "/agent")})
            assert text_of(told).startswith("Yes: ")
    finally:
        crawl.terminate()
        await crawl.wait()
    (asked,) = [one for one in web.log if one.path == "/agent"]
    assert asked.headers["user-agent"].startswith("crawlbot/1.0")
    assert min(web.log.gaps("127.0.0.1")) >= 1


def problem(options: Sequence[str], **environment: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["mcp", *options], env=environment)
    return result.exit_code, result.stderr


def test_bad_options_are_explained(tmp_path: Path) -> None:
    for options, word in (
        (["--http", "8711"], "HOST:PORT"),
        (["--http", "127.0.0.1:99999"], "HOST:PORT"),
        (["--http", "0.0.0.0:0"], "a token is required"),
        (["--http", "127.0.0.1:0", "--token", "secret"], "not the token itself"),
        (["--http", "127.0.0.1:0", "--token", "env:NO_SUCH_VARIABLE"], "is not set"),
        (["--http", "127.0.0.1:0", "--token", "env:SHORT"], "fewer than 16"),
        (["--host-name", "a.test"], "are for --http"),
        (["--via", "a.db", "--state", "b.db"], "exclude each other"),
        (["--via", "http://127.0.0.1:1"], "database"),
        (["--db", str(tmp_path / "no.db")], "there is no database"),
        (["--config", str(tmp_path / "no.toml")], "no.toml"),
        (["--allow", "nonsense"], "nonsense"),
    ):
        code, err = problem(options, SHORT="short")
        assert code == 2, options
        assert word in err, options
        assert "Traceback" not in err


def test_closed_standard_streams_are_explained() -> None:
    for redirection in ["<&-", ">&-"]:
        command = f"exec {shlex.join(COMMAND)} {redirection}"
        result = subprocess.run(
            ["/bin/sh", "-c", command],
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
            text=True,
            timeout=20,
        )
        assert result.returncode == 1, redirection
        assert "standard input or output is closed" in result.stderr, redirection


def test_input_from_a_file_is_served(tmp_path: Path) -> None:
    hello, answers = tmp_path / "hello.json", tmp_path / "answers.json"
    hello.write_text(json.dumps(HELLO) + "\n")
    with hello.open() as stdin, answers.open("w") as stdout:
        code = subprocess.run(COMMAND, env=ENVIRONMENT, stdin=stdin, stdout=stdout, timeout=20)
    assert code.returncode == 0
    assert json.loads(answers.read_text())["result"]["serverInfo"]["name"] == "courtly"


def test_state_is_kept_for_one_server_at_a_time(tmp_path: Path) -> None:
    state = str(tmp_path / "state.db")
    with running("--state", state) as process:
        say_hello(process)
        code, err = problem(["--state", state])
        assert code == 2
        assert "in use" in err


def test_an_address_in_use_is_explained() -> None:
    with running("--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        port = listening(process.stderr).rpartition(":")[2].removesuffix("/mcp")
        code, err = problem(["--http", f"127.0.0.1:{port}"])
        assert code == 1
        assert f"cannot listen on 127.0.0.1:{port}: address already in use" in err


def test_a_user_agent_without_a_contact_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    command = [*COMMAND, "--user-agent", "examplebot"]
    subprocess.run(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, timeout=20, check=True)
    assert "--user-agent 'examplebot': only pages on this machine" in capfd.readouterr().err


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.cli.mcp.find_spec", lambda name: None)
    code, err = problem([])
    assert code == 1
    assert "pip install 'courtly[mcp]'" in err


async def test_an_unknown_method_is_an_error_of_the_protocol() -> None:
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=ENVIRONMENT)
    async with Client(parameters) as client:
        with pytest.raises(MCPError):
            await client.list_resources()
