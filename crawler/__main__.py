"""`python -m crawler`, the same as `courtly`."""

from crawler.cli import main

if __name__ == "__main__":
    main(prog_name="courtly")
