"""Scope: each reason to leave a URL out, and the patterns."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from policies.scope import SKIP_KEYS, SKIP_WORDS, Follow, Scope, ScopeRules, Skip
from policies.url import canonical, host_of
from tests.tables import each


def scope_of(
    *roots: str,
    rules: ScopeRules | None = None,
    rules_for: Callable[[str], ScopeRules] | None = None,
    max_depth: float = math.inf,
) -> Scope:
    fixed = rules or ScopeRules()
    scope = Scope(rules_for or (lambda _: fixed), max_depth=max_depth)
    for root in roots or ("http://www.a.test/",):
        scope.add_root(root)
    return scope


def judge(scope: Scope, url: str, depth: int = 1, *, seed: bool = False) -> Skip | None:
    return scope.judge(url, host=host_of(url), depth=depth, seed=seed)


@each(
    ("follow", "url", "reason"),
    [
        (Follow.HOST, "http://www.a.test/x", None),
        (Follow.HOST, "https://www.a.test:8443/x", None),
        (Follow.HOST, "http://a.test/", Skip.OUTSIDE),
        (Follow.HOST, "http://b.a.test/", Skip.OUTSIDE),
        (Follow.DOMAIN, "http://a.test/", None),
        (Follow.DOMAIN, "http://x.y.a.test/", None),
        (Follow.DOMAIN, "http://b.test/", Skip.OUTSIDE),
        (Follow.DOMAIN, "http://xa.test/", Skip.OUTSIDE),
        (Follow.ANY, "http://b.example/", None),
    ],
)
def test_follow_is_relative_to_the_roots(follow: Follow, url: str, reason: Skip | None) -> None:
    """Scheme and port are ignored, `www` is not special."""
    assert judge(scope_of(rules=ScopeRules(follow=follow)), url) is reason


@each("follow", [Follow.HOST, Follow.DOMAIN])
@each(("root", "url"), [("a.test", "a.test."), ("a.test.", "a.test")])
def test_a_trailing_dot_is_the_same_host(follow: Follow, root: str, url: str) -> None:
    """As for the politeness slot."""
    scope = scope_of(f"http://{root}/", rules=ScopeRules(follow=follow))
    assert judge(scope, f"http://{url}/x") is None
    assert judge(scope, "http://xa.test./") is Skip.OUTSIDE
    assert not scope.add_root(f"http://{url}/")


def test_a_new_root_widens_the_scope_also_for_hosts_already_judged() -> None:
    scope = scope_of("http://a.test/")
    assert judge(scope, "http://b.test/x") is Skip.OUTSIDE
    assert scope.add_root("https://b.test/where/the/seed/redirects")
    assert judge(scope, "http://b.test/x") is None


def test_without_roots_all_is_outside() -> None:
    scope = Scope(lambda _: ScopeRules())
    assert judge(scope, "http://a.test/") is Skip.OUTSIDE


def test_each_host_has_its_own_rules_asked_for_once() -> None:
    asked: list[str] = []

    def rules_for(host: str) -> ScopeRules:
        asked.append(host)
        return ScopeRules(follow=Follow.ANY, max_url_bytes=20 if host == "b.test" else 2048)

    scope = scope_of(rules_for=rules_for)
    for _ in range(3):
        assert judge(scope, "http://a.test/page-of-some-length") is None
        assert judge(scope, "http://b.test/page-of-some-length") is Skip.MAX_URL_BYTES
    assert sorted(asked) == ["a.test", "b.test"]


def test_max_depth() -> None:
    scope = scope_of("http://a.test/", max_depth=2)
    assert [judge(scope, "http://a.test/x", depth) for depth in (0, 2, 3)] == [
        None,
        None,
        Skip.MAX_DEPTH,
    ]


def test_a_reload_changes_the_rules_of_hosts_already_judged_and_keeps_the_roots() -> None:
    scope = scope_of("http://a.test/", max_depth=1)
    url = "http://a.test/123456"
    assert judge(scope, url, 2) is Skip.MAX_DEPTH
    scope.judge_by(lambda _: ScopeRules(max_url_bytes=19), max_depth=2)
    assert judge(scope, url, 3) is Skip.MAX_DEPTH
    assert judge(scope, url, 2) is Skip.MAX_URL_BYTES
    scope.judge_by(lambda _: ScopeRules(), max_depth=2)
    assert judge(scope, url, 2) is None


def test_a_host_reaches_a_limit_with_the_last_page_or_byte_that_it_allows() -> None:
    pages, both = Skip.MAX_PAGES_PER_HOST, ScopeRules(max_pages_per_host=3, max_bytes_per_host=10)
    for rules, visited, size, reason in (
        (both, 2, 9, None),
        (both, 3, 9, pages),
        (both, 2, 10, Skip.MAX_BYTES_PER_HOST),
        (both, 4, 11, pages),
        (ScopeRules(max_pages_per_host=0), 0, 0, pages),
        (ScopeRules(), 10**9, 10**15, None),
    ):
        assert rules.host_limit(visited, size) is reason, (rules, visited, size)
    assert both.bounds_hosts
    assert ScopeRules(max_pages_per_host=3).bounds_hosts
    assert ScopeRules(max_bytes_per_host=10).bounds_hosts
    assert not ScopeRules().bounds_hosts


def test_robots_txt_is_no_page_at_the_root_alone() -> None:
    scope = scope_of("http://a.test/")
    assert judge(scope, "http://a.test/robots.txt", 0, seed=True) is Skip.ROBOTS_TXT
    assert judge(scope, "http://a.test/x/robots.txt") is None
    assert judge(scope, "http://a.test/robots.txt?x") is None


@pytest.mark.parametrize("check_external", [False, True])
def test_who_may_be_out_of_scope_and_which_limits_then_apply(check_external: bool) -> None:
    """Requisites, targets of a seed's redirects, and links that are only checked."""
    rules = ScopeRules(
        check_external=check_external, include=("*/in*",), exclude=("*/no*",), max_url_bytes=30
    )
    scope = scope_of("http://a.test/", rules=rules, max_depth=2)
    roles = {"link": {"link": True}, "requisite": {"requisite": True}, "lead": {"lead": True}}
    links_are = None if check_external else Skip.OUTSIDE
    for role, url, depth, reason in (
        ("link", "http://b.test/in", 1, links_are),
        ("link", "http://b.test/other", 3, links_are),
        ("link", "http://b.test/no", 1, Skip.EXCLUDED if check_external else Skip.OUTSIDE),
        ("link", "http://a.test/other", 1, Skip.NOT_INCLUDED),
        ("link", "http://a.test/in", 3, Skip.MAX_DEPTH),
        ("requisite", "http://b.test/other", 2, None),
        ("requisite", "http://b.test/other", 3, Skip.MAX_DEPTH),
        ("requisite", "http://b.test/no", 1, Skip.EXCLUDED),
        ("lead", "http://b.test/in", 2, None),
        ("lead", "http://b.test/other", 2, Skip.NOT_INCLUDED),
        ("lead", "http://b.test/in", 3, Skip.MAX_DEPTH),
        ("lead", "http://b.test/in" + "n" * 20, 1, Skip.MAX_URL_BYTES),
    ):
        found = scope.judge(url, host=host_of(url), depth=depth, **roles[role])
        assert found is reason, (role, url, depth)
    assert judge(scope, "http://b.test/in") is Skip.OUTSIDE  # no page links to it


@pytest.mark.parametrize("check_external", [False, True])
def test_the_target_of_a_seed_is_external_no_more(check_external: bool) -> None:
    scope = scope_of("http://a.test/", rules=ScopeRules(check_external=check_external))
    near, far = "http://a.test/x", "http://b.test/x"
    assert not scope.is_external(near, "a.test")
    assert scope.is_external(far, "b.test") is check_external
    scope.add_lead(near)
    scope.add_lead(far)
    assert scope.is_lead(far) is check_external
    assert not scope.is_lead(near)
    assert not scope.is_external(far, "b.test")
    assert scope.is_external(far + "/y", "b.test") is check_external


def test_max_url_bytes() -> None:
    scope = scope_of("http://a.test/", rules=ScopeRules(max_url_bytes=20))
    assert judge(scope, "http://a.test/123456") is None
    assert judge(scope, "http://a.test/1234567") is Skip.MAX_URL_BYTES


@each(
    ("path", "reason"),
    [
        ("/", None), ("/a/b/c", None), ("/a/b/c/", None), ("/a/b/c/d", Skip.MAX_PATH_SEGMENTS),
        ("/a/b/c/d/", Skip.MAX_PATH_SEGMENTS), ("/a/b?x=/c/d/e/f", None),
    ],
)  # fmt: skip
def test_max_path_segments(path: str, reason: Skip | None) -> None:
    scope = scope_of("http://a.test/", rules=ScopeRules(max_path_segments=3))
    assert judge(scope, "http://a.test" + path) is reason


@each(
    ("path", "reason"),
    [
        ("/a/a/a", None), ("/a/a/a/", None), ("/a/b/a/c/a/d", None), ("/a/a/b/b/c/c/d/d", None),
        ("/a/a/a/b/b", None),
        ("/a/a/a/a", Skip.MAX_REPEATED_SEGMENT), ("/a/b/a/b/a/b/a", Skip.MAX_REPEATED_SEGMENT),
        ("/x////y", None), ("/x/////y", Skip.MAX_REPEATED_SEGMENT), ("/x?a/a/a/a/a", None),
    ],
)  # fmt: skip
def test_max_repeated_segment(path: str, reason: Skip | None) -> None:
    scope = scope_of("http://a.test/")
    assert judge(scope, "http://a.test" + path) is reason


def test_limits_may_be_infinite() -> None:
    rules = ScopeRules(
        max_url_bytes=math.inf,  # type: ignore[arg-type]
        max_path_segments=math.inf,  # type: ignore[arg-type]
        max_repeated_segment=math.inf,  # type: ignore[arg-type]
    )
    assert judge(scope_of("http://a.test/", rules=rules), "http://a.test" + "/x" * 5000) is None


def test_include_and_exclude() -> None:
    rules = ScopeRules(include=("http://a.test/docs/*",), exclude=("*.pdf", "*?print=*"))
    scope = scope_of("http://a.test/", rules=rules)
    assert judge(scope, "http://a.test/docs/x") is None
    assert judge(scope, "http://a.test/blog") is Skip.NOT_INCLUDED
    assert judge(scope, "http://a.test/docs/x.pdf") is Skip.EXCLUDED
    assert judge(scope, "http://a.test/docs/x?print=1") is Skip.EXCLUDED
    assert judge(scope, "http://a.test/docs/xprint=1") is None


def test_a_seed_needs_no_include_pattern_but_heeds_exclude() -> None:
    rules = ScopeRules(include=("*/docs/*",), exclude=("*/private*",))
    scope = scope_of("http://a.test/", rules=rules)
    assert judge(scope, "http://a.test/", 0, seed=True) is None
    assert judge(scope, "http://a.test/", 0) is Skip.NOT_INCLUDED
    assert judge(scope, "http://a.test/private", 0, seed=True) is Skip.EXCLUDED


@each(
    ("url", "expected"),
    [
        ("http://a.test/x", "http://a.test/x"),
        ("http://a.test/x?b=1&a=2", "http://a.test/x?b=1&a=2"),
        ("http://a.test/x?utm_source=1&a=2&utm_x&b", "http://a.test/x?a=2&b"),
        ("http://a.test/x?PHPSESSID=1", "http://a.test/x"),
        ("http://a.test/x?phpsessid=1", "http://a.test/x?phpsessid=1"),
        ("http://a.test/x?a=utm_1&&c", "http://a.test/x?a=utm_1&&c"),
        ("http://a.test/x?utm_a&", "http://a.test/x"),
    ],
)
def test_drop_params_keeps_the_order_of_the_rest(url: str, expected: str) -> None:
    scope = scope_of(rules=ScopeRules(drop_params=("utm_*", "PHPSESSID")))
    assert scope.admit(url) == expected
    assert canonical(expected) == expected
    assert scope_of().admit(url) == url


@each(
    ("wanted", "declared", "let_in"),
    [
        ((), None, True), ((), "image/png", True),
        (("text/html",), "Text/HTML; charset=utf-8", True), (("Text/HTML",), "text/html", True),
        (("text/html",), "application/pdf", False), (("text/html",), None, False),
        (("application/octet-stream",), "", True), (("image/*",), "image/png", True),
    ],
)  # fmt: skip
def test_content_types(wanted: tuple[str, ...], declared: str | None, let_in: bool) -> None:
    scope = scope_of(rules=ScopeRules(content_types=wanted))
    assert scope.wants_type(declared, host="a.test") is let_in


def test_hosts_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scope, "_HOSTS_KEPT", 3)
    scope = scope_of("http://a.test/")
    for number in range(20):
        assert judge(scope, f"http://h{number}.test/") is Skip.OUTSIDE
        assert judge(scope, "http://a.test/") is None
        assert len(scope._hosts) <= 3


def test_every_reason_has_words_and_every_limit_its_key() -> None:
    assert set(SKIP_WORDS) == set(Skip)
    for reason in Skip:
        if reason.startswith("max_") and reason is not Skip.MAX_LINKS:
            assert SKIP_KEYS[reason].partition(".")[2] == reason
