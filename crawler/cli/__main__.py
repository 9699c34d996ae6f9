"""`python -m crawler.cli`, the same as `courtly`."""

from crawler.cli import main

main(prog_name="courtly")
