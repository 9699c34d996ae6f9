"""The reading of a small file, end to end."""

from __future__ import annotations

from policies import robots

FILE = robots.parse(
    b"User-agent: *\nAllow: /*.html$\nDisallow: /backup/ # old\n\nSitemap: http://a.test/s.xml\n"
)


def test_slurp_the_readers_question_is_a_tie_that_allow_wins() -> None:
    """`/*.html$` and `/backup/` are both 8 octets under our counting, and the verdict says so."""
    verdict = FILE.decide("http://a.test/backup/yes_or_not.html", agent="slurp")
    assert verdict.allowed
    assert (verdict.rule, verdict.line, verdict.length) == ("Allow: /*.html$", 2, 8)
    assert "8 octets" in str(verdict)
    assert "our counting" in str(verdict)


def test_the_deciding_line_is_quoted_without_its_comment() -> None:
    verdict = FILE.decide("http://a.test/backup/x", agent="slurp")
    assert not verdict.allowed
    assert verdict.rule == "Disallow: /backup/"
    assert verdict.line == 3


def test_sitemaps_are_exposed() -> None:
    assert FILE.sitemaps == ("http://a.test/s.xml",)
