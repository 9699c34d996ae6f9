"""`python -m crawler.cli` is `courtly`."""

from crawler.cli import main

main(prog_name="courtly")
