"""The command line: one module per command, imported when the command is used."""

from __future__ import annotations

from crawler.cli import signals

signals.exit_on_interrupt()  # before the slow imports, which Ctrl-C may interrupt

import importlib  # noqa: E402
from typing import Any  # noqa: E402

import click  # noqa: E402

from crawler.cli import standard_streams  # noqa: E402
from crawler.cli.exit_codes import reported_errors  # noqa: E402
from crawler.cli.process import loading  # noqa: E402
from crawler.documents import page_reader  # noqa: E402

# Each is a click command in the module of the same name, or in that of _MODULES. `courtly --help`
# imports all of these, so they import anything slow inside their commands.
_COMMANDS = (
    "crawl", "run", "fetch", "show", "export", "report", "why", "retry", "drop", "host", "seeds",
    "status", "pause", "resume", "reload", "db", "config", "robots", "mcp", "demo",
)  # fmt: skip
_MODULES = {
    "drop": "retry",
    "pause": "whole_crawl",
    "resume": "whole_crawl",
    "reload": "whole_crawl",
}


class _Commands(click.Group):
    """Imports commands by name, and reports every error as a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            from crawler.config.readers import did_you_mean

            hint = did_you_mean(cmd_name, list(_COMMANDS))
            raise click.UsageError(f'there is no command "{cmd_name}"{hint}')
        with loading():
            module = importlib.import_module(f"crawler.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with reported_errors(), signals.interrupts_raised():
            standard_streams.prepare()
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with reported_errors(), signals.interrupts_raised():
            page_reader.name()  # the environment may name one that cannot be used
            return super().invoke(ctx)


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from crawler.version import __version__

    click.echo(f"courtly {__version__}\nreader of pages: {page_reader.name()}")
    ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 finished, 1 failure at run time, 2 bad usage or config, 130 interrupted.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """A polite web crawler: it obeys robots.txt, limits its pace on every host, and can explain the
    state of every URL."""
