"""The command line: one file per command family, imported when its command is called."""

from __future__ import annotations

from crawler.cli import interrupts

interrupts.leave_when_interrupted()  # before the heavy imports, which Ctrl-C may interrupt

import importlib  # noqa: E402
import importlib.util  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

import click  # noqa: E402

from crawler.cli.interpreter import loading  # noqa: E402

# Command -> module and its click command there. Modules import what is heavy inside the commands:
# `courtly --help` reads them all.
_COMMANDS = {
    "crawl": ("crawler.cli.crawl", "crawl"),
    "run": ("crawler.cli.run", "run"),
    "fetch": ("crawler.cli.fetch", "fetch"),
    "show": ("crawler.cli.show", "show"),
    "export": ("crawler.cli.export", "export"),
    "report": ("crawler.cli.report", "report"),
    "why": ("crawler.cli.why", "why"),
    "retry": ("crawler.cli.retry", "retry"),
    "host": ("crawler.cli.host", "host"),
    "seeds": ("crawler.cli.seeds", "seeds"),
    "status": ("crawler.cli.status", "status"),
    "db": ("crawler.cli.db", "db"),
    "config": ("crawler.cli.config", "config"),
    "robots": ("crawler.cli.robots.command", "robots"),
    "demo": ("crawler.cli.demo.command", "demo"),
}


class _Commands(click.Group):
    """Finds commands by name, and turns every error into a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _) in _COMMANDS.items() if importlib.util.find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            from crawler.config.readers import did_you_mean

            hint = did_you_mean(cmd_name, self.list_commands(ctx))
            raise click.UsageError(f'there is no command "{cmd_name}"{hint}')
        module, name = _COMMANDS[cmd_name]
        with loading():
            command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        from crawler.cli.errors import hold_standard_files, sentences
        from crawler.cli.whole_output import buffer_stdout, tolerant

        with sentences(), interrupts.raised():
            hold_standard_files()
            buffer_stdout()
            tolerant(sys.stdout)
            tolerant(sys.stderr)
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        from crawler.cli.errors import sentences

        with sentences(), interrupts.raised():
            return super().invoke(ctx)


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from crawler.version import __version__

    click.echo(f"courtly {__version__}")
    ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 finished, 1 a run-time failure, 2 bad usage or config, 130 interrupted.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and leave.",
)
def main() -> None:
    """A polite crawler: it asks robots.txt first, waits its turn at every host, and can say why."""
