"""Makes a failing scenario small: leaves out whatever it fails without."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Final

from tests.simulation.judge import problems_of
from tests.simulation.running import simulate
from tests.simulation.scenario import Scenario
from tests.simulation.web import PagePlan

TRIES_MAX: Final = 250
Change = Callable[[Scenario], None]


def failure_of(scenario: Scenario) -> str:
    """The first problem of a scenario; "" if there is none."""
    try:
        found = problems_of(simulate(scenario))
    except Exception as error:  # noqa: BLE001 - a crash of the program is a problem as well
        return f"{type(error).__name__}: {error}"
    return found[0] if found else ""


def kind_of(problem: str) -> str:
    """The words of a problem that a smaller scenario must fail with, too."""
    return problem.split(":", maxsplit=1)[0].split(" ", maxsplit=1)[0]


def shrunk(scenario: Scenario) -> tuple[Scenario, str]:
    """A smaller scenario that fails in the same way, and its problem."""
    problem = failure_of(scenario)
    wanted, tries, smaller = kind_of(problem), 0, True
    while smaller and tries < TRIES_MAX:
        smaller = False
        for change in _changes(scenario):
            tries += 1
            if tries > TRIES_MAX:
                break
            other = copy.deepcopy(scenario)
            try:
                change(other)
            except (IndexError, KeyError):
                continue
            found = failure_of(other)
            if found and kind_of(found) == wanted:
                scenario, problem, smaller = other, found, True
                break
    return scenario, problem


def _changes(scenario: Scenario) -> Iterator[Change]:
    for n in reversed(range(len(scenario.runs) - 1)):
        yield lambda one, n=n: one.runs.pop(n)  # type: ignore[misc]
    for name in list(scenario.hosts):
        if len(scenario.hosts) > 1:
            yield lambda one, name=name: _drop_host(one, name)  # type: ignore[misc]
    if scenario.workers > 1:
        yield lambda one: setattr(one, "workers", one.workers - 1)
    for n, run in enumerate(scenario.runs):
        for place in range(len(run.deeds)):
            yield lambda one, n=n, place=place: one.runs[n].deeds.pop(place)  # type: ignore[misc]
    yield from _simpler(scenario)
    for name, host in scenario.hosts.items():
        for path in list(host.pages)[1:]:
            yield lambda one, name=name, path=path: _drop_page(one, name, path)  # type: ignore[misc]
        if len(host.robots) > 1:
            yield lambda one, name=name: one.hosts[name].robots.pop()  # type: ignore[misc]
        if host.sitemap:
            yield lambda one, name=name: setattr(one.hosts[name], "sitemap", ())  # type: ignore[misc]
    for section, keys in scenario.sections.items():
        for key in keys:
            if (section, key) not in (("crawl", "user_agent"), ("revisit", "mode")):
                yield lambda one, s=section, k=key: one.sections[s].pop(k)  # type: ignore[misc]
    for name, host in scenario.hosts.items():
        for path, page in host.pages.items():
            if page != PagePlan(links=page.links):
                yield lambda one, n=name, p=path: _plain(one, n, p)  # type: ignore[misc]


def _simpler(scenario: Scenario) -> Iterator[Change]:
    if scenario.order is not None:
        yield lambda one: setattr(one, "order", None)
    if scenario.slow_store_s:
        yield lambda one: setattr(one, "slow_store_s", 0.0)
    if scenario.sinks:
        yield lambda one: setattr(one, "sinks", False)
    if scenario.engine == "file":
        yield lambda one: setattr(one, "engine", "memory")
    if len(scenario.seeds) > 1:
        for url in scenario.seeds:
            yield lambda one, url=url: one.seeds.remove(url)  # type: ignore[misc]


def _drop_host(scenario: Scenario, name: str) -> None:
    del scenario.hosts[name]
    scenario.seeds = [url for url in scenario.seeds if f"//{name}/" not in url]
    scenario.seeds = scenario.seeds or [f"http://{next(iter(scenario.hosts))}/p0"]
    for host in scenario.hosts.values():
        for _, robots in host.robots:
            if robots.target == name:
                raise KeyError(name)


def _drop_page(scenario: Scenario, name: str, path: str) -> None:
    del scenario.hosts[name].pages[path]


def _plain(scenario: Scenario, name: str, path: str) -> None:
    page = scenario.hosts[name].pages[path]
    scenario.hosts[name].pages[path] = PagePlan(links=page.links)
