"""Scenarios: everything that happens in one simulation, drawn from one number.

Each part is drawn from a stream of its own, so that leaving one out does not change the others.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.web import ALWAYS, CALLERS, HostPlan, PagePlan, RobotsPlan

DAY_S: Final = 86_400.0
Sections = dict[str, dict[str, Any]]
# Robots.txt is read alike by all of these for the rules that are drawn here; they differ in what
# they make of its absence, of Crawl-delay, and in how long they keep it.
DIALECTS: Final = ("slurp", "rfc9309", "google", "bing", "res1996", "yandex")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something that happens from outside during a run, `at_s` after its beginning, or as soon as
    the contact `as_ends` (a number) has ended."""

    at_s: float
    as_ends: int | None = None
    verb: str
    host: str = ""
    value: Any = None


@dataclass(slots=True, kw_only=True)
class RunPlan:
    """One run of the program on the database.

    end: "itself", "stop", "cancel" or "kill". at_s: when. at_call: instead, with the n-th call of
    the store (of its method `at_verb`, if given); after: when that has been made, else before.
    """

    end: str = "itself"
    at_s: float = ALWAYS
    at_call: int = 0
    at_verb: str = ""
    after: bool = False
    then_s: float = 0.0  # from its end to the next run
    step_s: float = 0.0  # of the wall clock, meanwhile
    reboots: bool = False  # the machine is started again, meanwhile
    deeds: list[Deed] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Scenario:
    """One simulation. `seed` draws it; shrinking removes parts of it."""

    seed: int
    engine: str  # "memory", "file", "shared", "postgres"
    workers: int
    order: int | None  # shuffles what is ready to run
    sections: Sections
    hosts: dict[str, HostPlan]
    seeds: list[str]
    runs: list[RunPlan]
    slow_store_s: float = 0.0
    sinks: bool = False

    @property
    def forever(self) -> bool:
        return self.sections["revisit"]["mode"] != "off"


# ---------------------------------------------------------------- drawing


def draw(seed: int, engine: str | None = None) -> Scenario:
    """The scenario of this number, on this engine."""
    pick = random.Random(f"{seed} shape")
    theme = pick.choice(THEMES)
    names = _names(pick)
    sections = _sections(random.Random(f"{seed} config"), names, theme)
    hosts = {name: _host(random.Random(f"{seed} {name}"), name, names, theme) for name in names}
    if theme == "outage" or pick.random() < 0.06:
        _outage(pick, hosts)
    drawn = pick.choice(["memory", "memory", "memory", "memory", "file", "shared", "shared"])
    if engine is None:
        engine = drawn
    workers = pick.choice([2, 2, 3, 4]) if engine == "shared" else 1
    seeds = [f"http://{name}/p0" for name in pick.sample(names, pick.randint(1, len(names)))]
    scenario = Scenario(
        seed=seed, engine=engine, workers=workers,
        order=pick.choice([None, None, pick.randrange(1 << 30)]), sections=sections, hosts=hosts,
        seeds=seeds, runs=[], slow_store_s=pick.choice([0.0, 0.0, 0.0, 0.02, 0.3]),
        sinks=pick.random() < 0.5,
    )  # fmt: skip
    if engine == "shared":  # its workers look at the database each second
        sections["crawl"]["patience"] = min(sections["crawl"]["patience"], 120)
    scenario.runs = _runs(random.Random(f"{seed} runs"), scenario, theme)
    from tests.simulation import robots_themes, worker_themes

    robots_themes.overlay(scenario)
    worker_themes.overlay(scenario)
    if engine != "postgres":
        from tests.simulation import situations

        situations.place(scenario)
    return scenario


THEMES: Final = (
    "plain", "plain", "robots", "robots", "failing", "failing", "refusing", "lanes", "address",
    "domain", "windows", "revisits", "revisits", "limits", "commands", "commands", "kills", "kills",
    "outage", "callers", "storage",
)  # fmt: skip


def _names(pick: random.Random) -> list[str]:
    names = [f"h{n}.test" for n in range(pick.choice([1, 2, 2, 3, 3, 4, 5, 6]))]
    names += [f"{sub}.h{n}.test" for n in (0, 1) for sub in ("a", "b") if pick.random() < 0.2]
    return [name for name in names if name.count(".") == 1 or name.split(".", 1)[1] in names]


def _sections(draw: random.Random, names: list[str], theme: str) -> Sections:
    per = draw.choice(["host", "host", "host", "domain", "ip"])
    per = {"address": "ip", "domain": "domain", "lanes": "host"}.get(theme, per)
    lanes = draw.choice([1, 1, 1, 2, 3]) if theme != "lanes" else draw.choice([2, 3, 4])
    limited = theme == "limits"
    sections: Sections = {
        "crawl": {
            "concurrency": draw.choice([1, 2, 4, 64, 64, 64, 64]),
            "max_pages": draw.choice([3, 8, 20]) if limited else draw.choice([math.inf] * 9 + [7]),
            "max_depth": draw.choice([0, 1, 2, 3])
            if limited
            else draw.choice([math.inf] * 5 + [2]),
            "patience": draw.choice([30, 600, 600, 7200, 2 * DAY_S]),
            "user_agent": "simbot/1.0 (+https://example.com/simbot)",
        },
        "scope": {
            "follow": draw.choice(["host", "domain", "any", "any"]),
            "max_pages_per_host": draw.choice([1, 2, 5] if limited else [math.inf] * 7 + [4]),
            "exclude": draw.choice([[], [], ["*/x*"]]),
            "sitemap_paths": [],
            "sitemaps": draw.random() < 0.8,
        },
        "politeness": {
            "delay": draw.choice([0, 0.5, 1, 1, 3, 20]),
            "latency_factor": draw.choice([0, 0, 0, 1, 5]),
            "per": per,
            "ip_delay": draw.choice([0.25, 2, 10]),
            "concurrency_per_host": lanes,
        },
        "robots": {"dialect": _dialect(draw)},
        "fetch": {
            "max_attempts": draw.choice([1, 2, 3, 3, 5]),
            "unreachable_for": draw.choice([40, 600, 7200, 7 * DAY_S]),
            "max_redirects": draw.choice([0, 1, 3, 20]),
            "timeout": draw.choice([10, 30]),
        },
        "revisit": {"mode": "off"},
    }
    if draw.random() < 0.25:
        sections["robots"]["unreachable"] = draw.choice(["open", "closed"])
    if theme == "windows":
        hour = draw.randrange(24)
        window = f"{hour:02}:00-{(hour + draw.randint(1, 9)) % 24:02}:30"
        if hour % 3:  # else the windows are those of robots.txt
            sections["politeness"]["visit_window"] = window
    if theme == "revisits":
        sections["revisit"] = {
            "mode": draw.choice(["fixed", "adaptive"]),
            "interval": draw.choice([600, 3600, 6 * 3600]),
            "min_interval": draw.choice([300, 1800]),
            "max_interval": draw.choice([4 * 3600, 30 * 3600]),
        }
    for name in names:
        if draw.random() < 0.15:
            sections.setdefault("site", {})[name] = {
                "delay": draw.choice([0.2, 2, 7]),
                "max_pages_per_host": draw.choice([math.inf, 3]) if limited else math.inf,
            }
    return sections


def _dialect(draw: random.Random) -> str | list[str]:
    if draw.random() < 0.2:
        return draw.sample(DIALECTS, 2)
    return draw.choice(["slurp", "slurp", *DIALECTS])


def _host(draw: random.Random, name: str, names: list[str], theme: str) -> HostPlan:
    addresses = [f"127.0.0.{n}" for n in (2, 3)] if theme == "address" else ["127.0.0.1"]
    plan = HostPlan(
        name=name, address=draw.choice(addresses), latency_s=draw.choice([0.05, 0.05, 0.3, 2.0]),
        robots=_robots(draw, names, theme), pages={},
    )  # fmt: skip
    count = draw.choice([1, 3, 5, 8, 12])
    if theme == "refusing" and draw.random() < 0.3:
        count = 26
    paths = ["/p0"]
    paths += [
        draw.choice(["/p", "/p", "/p", "/p", "/no", "/q", "/x"]) + str(n) for n in range(1, count)
    ]
    denies = theme == "refusing" and draw.random() < 0.5
    for place, path in enumerate(paths):
        page = _page(draw, name, paths, names, theme)
        if denies and place:
            page = PagePlan(kind="denied")
        if not place:  # it leads to all others of its host, so that there is something to do
            own = tuple(f"http://{name}{other}" for other in paths[1:])
            page = PagePlan(links=own + _links(draw, names, 3), slow_s=page.slow_s)
        plan.pages[path] = page
    if draw.random() < 0.2:
        plan.sitemap = tuple(draw.sample([*paths, "/s1", "/s2"], min(3, len(paths))))
        plan.pages |= {path: PagePlan() for path in ("/s1", "/s2")}
    if theme == "failing" and draw.random() < 0.4:
        from_s = draw.choice([0.0, 0.0, 5.0, 40.0])
        to_s = from_s + draw.choice([3.0, 60.0, 900.0, 20_000.0, ALWAYS])
        plan.dead.append((from_s, to_s, draw.choice(["connect", "dns", "timeout"])))
    return plan


def _links(draw: random.Random, names: list[str], most: int) -> tuple[str, ...]:
    return tuple(
        f"http://{draw.choice(names)}/"
        f"{draw.choice(['p', 'p', 'no', 'x', 'q'])}{draw.randint(0, 12)}"
        for _ in range(draw.randint(0, most))
    )


def _page(
    draw: random.Random, name: str, paths: list[str], names: list[str], theme: str
) -> PagePlan:
    failing = {"failing": 0.45, "refusing": 0.3}.get(theme, 0.12)
    kind, fails, failure = "page", 0, "error"
    retry_after_s = None
    if draw.random() < failing:
        choices = ["error", "busy", "timeout", "reset"] if theme != "refusing" else ["busy"]
        failure = draw.choice(choices)
        fails = draw.choice([1, 1, 2, 3, 4, 5, 99])
        if failure == "busy" or draw.random() < 0.2:
            retry_after_s = draw.choice([None, 3, 45, 600])
    elif draw.random() < 0.2:
        kind = draw.choice(["redirect", "redirect", "gone", "denied"])
    links = tuple(f"http://{name}{draw.choice(paths)}" for _ in range(draw.randint(0, 3)))
    links += _links(draw, names, 2)
    if kind == "redirect":
        links = (draw.choice(links) if links else f"http://{name}/p0",)
    return PagePlan(
        kind=kind, links=links, fails=fails, failure=failure, retry_after_s=retry_after_s,
        as_date=draw.random() < 0.3, slow_s=draw.choice([0.0, 0.0, 0.0, 0.4, 3.0]),
        status=draw.choice([0, 410]) if kind == "gone" else 0, nofollow=draw.random() < 0.05,
        noindex_from_s=draw.choice([ALWAYS] * 6 + [0.0]),
        changes_every_s=draw.choice([ALWAYS, ALWAYS, 900.0, 5000.0]),
        validators=draw.random() < 0.3,
    )  # fmt: skip


def _robots(draw: random.Random, names: list[str], theme: str) -> list[tuple[float, RobotsPlan]]:
    """The phases of a host's robots.txt."""
    count = draw.choice([1, 2, 2, 3]) if theme == "robots" else draw.choice([1, 1, 1, 2])
    phases, from_s = [], 0.0
    for _ in range(count):
        phases.append((from_s, _one_robots(draw, names, theme)))
        from_s += draw.choice([4.0, 25.0, 130.0, 1500.0, 30_000.0, DAY_S + 10])
    return phases


def _one_robots(draw: random.Random, names: list[str], theme: str) -> RobotsPlan:
    odd = 0.5 if theme == "robots" else 0.15
    max_age_s = draw.choice([None, None, 0, 5000, 400_000])
    if draw.random() < odd:
        kind = draw.choice(
            ["absent", "denied", "error", "error", "busy", "timeout", "reset", "html", "redirect"]
        )
        after_s = draw.choice([None, None, 70]) if kind in ("error", "busy") else None
        return RobotsPlan(
            kind=kind, target=draw.choice(names), retry_after_s=after_s, max_age_s=max_age_s
        )
    slow = 0.5 if theme in ("lanes", "address", "domain") else 0.25
    return RobotsPlan(
        disallow=draw.choice(
            [(), ("/no",), ("/no",), ("/p1",), ("/no", "/q"), ("/p",), ("/",)]
            if theme == "robots"
            else [(), ("/no",), ("/no", "/q")]
        ),
        crawl_delay_s=draw.choice([2, 6, 0.5]) if draw.random() < slow else None,
        request_rate_s=draw.choice([4, 9]) if draw.random() < slow / 2 else None,
        visit_time=draw.choice(["0000-0500", "2000-0600"])
        if theme == "windows" and draw.random() < 0.4
        else None,
        sitemap=draw.random() < 0.4,
        max_age_s=max_age_s,
        etag=draw.random() < 0.3,
    )


def _outage(pick: random.Random, hosts: dict[str, HostPlan]) -> None:
    """All hosts are out of reach for some time."""
    from_s = pick.choice([0.0, 3.0, 30.0, 200.0])
    to_s = from_s + pick.choice([5.0, 90.0, 1000.0, 10_000.0])
    failure = pick.choice(["connect", "connect", "dns", "timeout"])
    for plan in hosts.values():
        plan.dead.append((from_s, to_s, failure))


# ---------------------------------------------------------------- what happens


def _runs(draw: random.Random, scenario: Scenario, theme: str) -> list[RunPlan]:
    count = {"kills": draw.choice([2, 3, 4]), "storage": 2}.get(theme, draw.choice([1, 1, 1, 2]))
    runs = [RunPlan() for _ in range(count)]
    for run in runs[:-1]:
        run.end = draw.choice(["stop", "cancel", "kill", "kill"]) if theme != "kills" else "kill"
        run.at_s = draw.choice([0.3, 1.0, 2.5, 6.0, 20.0, 90.0]) * draw.uniform(0.8, 1.2)
        if run.end == "kill" and draw.random() < 0.7:
            run.at_call, run.after = draw.choice([2, 5, 9, 15, 30, 60]), draw.random() < 0.5
            run.at_s = 5000.0
        run.then_s = draw.choice([0.0, 0.0, 0.2, 1.0, 4000.0, DAY_S])
        run.step_s = draw.choice([0.0] * 6 + [-30.0, 30.0, -30 * DAY_S, 3600.0])
    if scenario.forever:
        shared = scenario.engine == "shared"
        horizons = [1500.0, 4000.0] if shared else [7200.0, 30_000.0, 2 * DAY_S]
        runs[-1].end, runs[-1].at_s = "stop", draw.choice(horizons)
    elif draw.random() < 0.15:
        runs[-1].end, runs[-1].at_s = "stop", draw.choice([3.0, 100.0])
    for run in runs:
        run.deeds = _deeds(draw, scenario, theme)
    return runs


def _deeds(draw: random.Random, scenario: Scenario, theme: str) -> list[Deed]:
    usual = draw.choice([0, 0, 0, 1])
    count = {"commands": draw.randint(2, 8), "callers": draw.randint(3, 9)}.get(theme, usual)
    names = list(scenario.hosts)
    deeds: list[Deed] = []
    at_s = 0.2
    for _ in range(count):
        at_s += draw.choice([0.05, 0.7, 2.0, 7.0, 40.0])
        verbs = CALLS if theme == "callers" else STEERING
        deeds += deeds_of(draw, scenario, at_s, draw.choice(verbs), draw.choice(names))
    if theme == "storage" or draw.random() < 0.05:
        for _ in range(draw.randint(1, 3)):
            from_s = draw.choice([0.05, 0.5, 2.0, 8.0]) * draw.uniform(0.5, 1.5)
            kind = draw.choice(["SQLITE_FULL", "SQLITE_BUSY", "SQLITE_IOERR"])
            for_s = draw.choice([0.02, 0.3, 4.0, 100.0 if from_s > 4.0 else 10.0])
            deeds.append(Deed(at_s=from_s, verb="fault", value=kind))
            deeds.append(Deed(at_s=from_s + for_s, verb="mend"))
    if scenario.engine == "shared" and draw.random() < 0.5:
        for _ in range(draw.randint(1, 2)):
            deeds += of_worker(draw, scenario.workers)
    return sorted(deeds, key=lambda deed: deed.at_s)


STEERING: Final = (
    "pause", "pause host", "slow host", "reload", "seeds", "retry", "wall", "wall", "sleep",
    "drop",
)  # fmt: skip
CALLS: Final = ("fetch", "fetch", "permit", "permit", "cancelled fetch")


def deeds_of(
    draw: random.Random, scenario: Scenario, at_s: float, verb: str, host: str
) -> list[Deed]:
    later_s = at_s + draw.choice([0.5, 4.0, 30.0, 300.0])
    match verb:
        case "pause":
            return [Deed(at_s=at_s, verb="pause"), Deed(at_s=later_s, verb="resume")]
        case "pause host" | "slow host":
            value = draw.choice([0.2, 4.0, 15.0])
            back = Deed(at_s=later_s, verb="resume host", host=host)
            return [Deed(at_s=at_s, verb=verb, host=host, value=value), back]
        case "reload":
            return [Deed(at_s=at_s, verb=verb, value=_other(draw, scenario.sections, host))]
        case "seeds":
            path = draw.choice(["/p1", "/new", "/p3"])
            return [Deed(at_s=at_s, verb=verb, value=f"http://{host}{path}")]
        case "wall":
            step_s = draw.choice([-5.0, 5.0, -0.9, 0.9, 3600.0, -3600.0, 40 * DAY_S, -40 * DAY_S])
            return [Deed(at_s=at_s, verb=verb, value=step_s)]
        case "sleep":
            return [Deed(at_s=at_s, verb=verb, value=draw.choice([2.0, 600.0]))]
        case "permit" | "fetch" | "cancelled fetch":
            path = draw.choice([f"{CALLERS}{draw.randrange(1000)}", f"{CALLERS}-no"])
            answer = draw.choice([(200, None), (200, None), (503, 40), (429, None), (200, 30)])
            answered = (path, draw.choice([0.1, 2.0]), *answer)
            return [Deed(at_s=at_s, verb=verb, host=host, value=answered)]
        case _:
            return [Deed(at_s=at_s, verb=verb)]


def of_worker(draw: random.Random, workers: int) -> list[Deed]:
    """What happens to one worker."""
    worker = draw.randrange(workers)
    at_s = draw.choice([0.5, 3.0, 12.0, 60.0]) * draw.uniform(0.8, 1.2)
    for_s = draw.choice([2.0, 9.0, 18.0, 60.0])
    verb = draw.choice(["freeze", "cut off", "kill worker"])
    deeds = [Deed(at_s=at_s, verb=verb, value=worker)]
    if verb == "freeze":
        deeds.append(Deed(at_s=at_s + for_s, verb="thaw", value=worker))
    elif verb == "cut off":
        deeds.append(Deed(at_s=at_s + for_s, verb="connect", value=worker))
    elif draw.random() < 0.7:
        deeds.append(Deed(at_s=at_s + for_s, verb="start worker", value=worker))
    return deeds


def _other(draw: random.Random, sections: Sections, host: str) -> Sections:
    """Another config, as a reload reads it."""
    changed: Sections = {name: dict(keys) for name, keys in sections.items()}
    politeness = changed["politeness"]
    match draw.randrange(5):
        case 0:
            politeness["delay"] = draw.choice([0.2, 2, 6])
        case 1:
            politeness["concurrency_per_host"] = draw.choice([1, 2])
        case 2:
            changed["robots"] = {**changed["robots"], "dialect": draw.choice(DIALECTS)}
        case 3:
            changed["crawl"]["concurrency"] = draw.choice([1, 3, 64])
        case _:
            changed["site"] = {host: {"delay": draw.choice([0.3, 5])}}
    return changed
