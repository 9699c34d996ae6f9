"""Faults to be injected into the code, one at a time, each of which the simulator should find.

A mutant replaces one text, which occurs exactly once in its file, by another. They were written by
reading the code, before any of them was tried: a list that is fitted to what the simulator finds
proves nothing. `tests.simulation.injection` runs them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Mutant(NamedTuple):
    """One fault: in `file`, `old` becomes `new`. on_server: only PostgreSQL uses this code."""

    what: str
    file: str
    old: str
    new: str
    on_server: bool = False


PACING: Final = (
    Mutant(
        "a Crawl-delay is ignored",
        "policies/pacing.py",
        'best_s, source = ask.crawl_delay_s, "Crawl-delay in robots.txt"',
        'source = "Crawl-delay in robots.txt"',
    ),
    Mutant(
        "a Request-rate is ignored",
        "policies/pacing.py",
        'best_s, source = ask.request_rate_s, "Request-rate in robots.txt"',
        'source = "Request-rate in robots.txt"',
    ),
    Mutant(
        "the operator's delay is ignored",
        "policies/pacing.py",
        'best_s, source = slow_s, "slowed manually"',
        'source = "slowed manually"',
    ),
    Mutant(
        "the delay is not doubled while robots.txt is missing",
        "policies/pacing.py",
        "best_s *= 2",
        "best_s *= 1",
    ),
    Mutant(
        "max for min in the delay by response time",
        "policies/pacing.py",
        "slowness_s = min(rules.latency_factor * latency_s, LATENCY_TERM_MAX_S)",
        "slowness_s = max(rules.latency_factor * latency_s, LATENCY_TERM_MAX_S)",
    ),
    Mutant(
        "the first response time counts for ever",
        "policies/pacing.py",
        "return latency_s + LATENCY_WEIGHT * (newest_s - latency_s)",
        "return latency_s",
    ),
    Mutant(
        "a Crawl-delay does not count for addresses",
        "policies/pacing.py",
        "asked_s = max(rules.ip_delay, ask.crawl_delay_s or 0.0, ask.request_rate_s or 0.0)",
        "asked_s = rules.ip_delay",
    ),
    Mutant(
        "several lanes despite a Crawl-delay",
        "policies/pacing.py",
        "return 1 if backing_off or ask.alone else rules.concurrency_per_host",
        "return 1 if backing_off else rules.concurrency_per_host",
    ),
    Mutant(
        "several lanes during a backoff",
        "policies/pacing.py",
        "return 1 if backing_off or ask.alone else rules.concurrency_per_host",
        "return 1 if ask.alone else rules.concurrency_per_host",
    ),
    Mutant(
        "Visit-time of robots.txt is ignored",
        "policies/pacing.py",
        "windows = _welcome(rules.visit_window, ask.windows)",
        "windows = _welcome(rules.visit_window, ())",
    ),
    Mutant(
        "the delay counts from the beginning of the contact",
        "crawler/frontier/pace.py",
        "bisect.insort(self.ends, ended_s)\n        self.contacts += 1",
        "bisect.insort(self.ends, started_s)\n        self.contacts += 1",
    ),
    Mutant(
        "off by one in the lane whose delay counts",
        "crawler/frontier/pace.py",
        "lane = len(self.ends) + self.busy - self.lanes\n        if lane >= 0 and (lane_s",
        "lane = len(self.ends) + self.busy - self.lanes - 1\n        if lane >= 0 and (lane_s",
    ),
    Mutant(
        "min for max in a backoff by Retry-After",
        "crawler/frontier/pace.py",
        "if until_s >= self.backoff_until_s:",
        "if until_s <= self.backoff_until_s:",
    ),
    Mutant(
        "one success forgives all refusals",
        "crawler/frontier/pace.py",
        "self.backoff_level -= 1  # forgiven",
        "self.backoff_level = 0  # forgiven",
    ),
    Mutant(
        "the backoff does not grow",
        "crawler/frontier/pace.py",
        "            self.backoff_level += 1\n",
        "            self.backoff_level = 1\n",
    ),
    Mutant(
        "many denials in a row do not make the host back off",
        "crawler/frontier/pace.py",
        "denied = self.denials >= DENIALS_MAX",
        "denied = False",
    ),
    Mutant(
        "after a crash the host need not wait",
        "crawler/frontier/pace.py",
        "self.delay_at_restart = now_s if restart_s is None else restart_s",
        "self.delay_at_restart = None",
    ),
    Mutant(
        "visit windows are ignored",
        "crawler/frontier/pace.py",
        "            if closed_s:\n                at_s = start_s + closed_s\n",
        "",
    ),
    Mutant(
        "only the last of several robots.txt of a host paces it",
        "crawler/frontier/pace.py",
        "strictest = strictest.strictest(one)\n        if strictest != self.ask:",
        "strictest = one\n        if strictest != self.ask:",
    ),
    Mutant(
        "a reload does not change the pace of hosts in memory",
        "crawler/frontier/host_queue.py",
        "self.pace.rules = rules\n        self.pace.revision += 1\n        self.pace.recompute()",
        "self.pace.revision += 1\n        self.pace.recompute()",
    ),
    Mutant(
        "the operator's delay is not applied to hosts in memory",
        "crawler/frontier/host_queue.py",
        "            self.pace.slow_s = slow_s\n",
        "            pass\n",
    ),
)

RETRIES: Final = (
    Mutant(
        "one attempt too many",
        "policies/retries.py",
        "or attempts >= rules.max_attempts:",
        "or attempts > rules.max_attempts:",
    ),
    Mutant(
        "one refusal too many",
        "policies/retries.py",
        "if refusals >= REFUSALS_MAX:",
        "if refusals > REFUSALS_MAX:",
    ),
    Mutant(
        "the retry delay does not grow",
        "policies/retries.py",
        "return _RETRY_FIRST_S[step]",
        "return _RETRY_FIRST_S[0]",
    ),
    Mutant(
        "max for min in the retry delay",
        "policies/retries.py",
        "return min(_RETRY_THEN_S * 2.0**doublings, _RETRY_S_MAX)",
        "return max(_RETRY_THEN_S * 2.0**doublings, _RETRY_S_MAX)",
    ),
    Mutant(
        "the backoff without Retry-After does not double",
        "policies/retries.py",
        "return min(_BACKOFF_FIRST_S * 2.0**doublings, BACKOFF_S_MAX)",
        "return min(_BACKOFF_FIRST_S, BACKOFF_S_MAX)",
    ),
    Mutant(
        "a date in Retry-After counts for nothing",
        "policies/retries.py",
        "wait_s = date_s - (now_s if sent_s is None else min(now_s, sent_s))",
        "wait_s = 0.0",
    ),
    Mutant(
        "one connection failure too many",
        "policies/retries.py",
        "over = failures >= rules.max_attempts",
        "over = failures > rules.max_attempts",
    ),
    Mutant(
        "an origin is given up too early",
        "policies/retries.py",
        "over = tried_for_s(failures) >= rules.unreachable_for_s",
        "over = tried_for_s(failures) * 4 >= rules.unreachable_for_s",
    ),
    Mutant(
        "a URL is tried again without a delay",
        "crawler/processing/attempts.py",
        "due_in_s=fate.in_s,",
        "due_in_s=0.0,",
    ),
    Mutant(
        "attempts are not counted",
        "crawler/processing/attempts.py",
        "attempts=fate.attempts,\n        refusals=fate.refusals,",
        "attempts=queued.attempts,\n        refusals=fate.refusals,",
    ),
    Mutant(
        "connection failures in a row are not counted",
        "crawler/frontier/host_queue.py",
        "failures = known.failures + 1 if known else self.tried_before + 1",
        "failures = self.tried_before + 1",
    ),
    Mutant(
        "a redirect too many is followed",
        "crawler/processing/worker.py",
        "queued.hops >= fetch.max_redirects and",
        "queued.hops > fetch.max_redirects and",
    ),
)

FRONTIER: Final = (
    Mutant(
        "lost wake-up: an origin out of reach is not tried again",
        "crawler/frontier/frontier.py",
        "        self._set_alarm(host, origin, lost.until_s)\n        if isinstance(fate, GiveUp)",
        "        if isinstance(fate, GiveUp)",
    ),
    Mutant(
        "lost wake-up: links of a commit to hosts that are idle",
        "crawler/frontier/frontier.py",
        "        self.links_added(completed)\n        self.permits.advance()",
        "        self.permits.advance()",
    ),
    Mutant(
        "lost wake-up: links to hosts in memory",
        "crawler/frontier/frontier.py",
        "            elif not host.prefetched and not host.wanting:\n"
        "                self.want(host)\n",
        "",
    ),
    Mutant(
        "lost wake-up: links to hosts that are not held",
        "crawler/frontier/frontier.py",
        "            if host is None:\n                self.may_claim()\n            elif",
        "            if host is None:\n                pass\n            elif",
    ),
    Mutant(
        "lost wake-up: a URL that falls due",
        "crawler/frontier/frontier.py",
        "        if name == DUE and not host.prefetched:\n"
        "            host.next_due_s = None\n            self.want(host)",
        "        if name == DUE and not host.prefetched:\n            host.next_due_s = None",
    ),
    Mutant(
        "prefetched URLs do not count as held",
        "crawler/frontier/frontier.py",
        "                host.in_memory.update(map(_ID, hand.urls))\n",
        "",
    ),
    Mutant(
        "URLs that waited for robots.txt are dropped",
        "crawler/frontier/frontier.py",
        "host.prefetched.extendleft(reversed(host.parked.pop(origin.name, [])))",
        "host.parked.pop(origin.name, [])",
    ),
    Mutant(
        "a late robots.txt withdraws nothing",
        "crawler/frontier/frontier.py",
        "        if changes(previous, origin.access):\n"
        "            self.commands.put(Rejudge(origin.name))\n",
        "        pass\n",
    ),
    Mutant(
        "the answer teaches the host nothing",
        "crawler/downloading/downloader.py",
        "                frontier.learn(permit, result, kind=kind)\n        except",
        "                pass\n        except",
    ),
    Mutant(
        "the answer to a lent permit teaches the host nothing",
        "crawler/downloading/downloader.py",
        "                self._frontier.learn(permit, answer, kind=PAGE)\n",
        "                pass\n",
    ),
    Mutant(
        "hosts are not asked for more URLs",
        "crawler/frontier/commit_buffer.py",
        "        dirty |= {slot: host for slot, (host, _) in wants.items() if not host.gone}\n",
        "",
    ),
    Mutant(
        "sinks are not flushed before a commit",
        "crawler/processing/committer.py",
        "            await self._sinks.flush()\n            self._faults |=",
        "            self._faults |=",
    ),
    Mutant(
        "a restarted crawl does not wait for hosts that rest",
        "crawler/scheduling/host_supply.py",
        "            first_s = min(first_s, now_s + outlook.claimable_in_s)\n",
        "            pass\n",
    ),
    Mutant(
        "one page more than max_pages",
        "crawler/processing/run_limits.py",
        "return Skip.MAX_PAGES if self._pages + 1 > config.max_pages else None",
        "return Skip.MAX_PAGES if self._pages > config.max_pages else None",
    ),
    Mutant(
        "failed requests count as pages",
        "crawler/processing/worker.py",
        "            if not visited:\n                self._limits",
        "            if False:\n                self._limits",
    ),
    Mutant(
        "one page more than max_pages_per_host",
        "policies/scope.py",
        "if pages >= self.max_pages_per_host:",
        "if pages > self.max_pages_per_host:",
    ),
    Mutant(
        "pages in flight do not count towards max_pages_per_host",
        "crawler/processing/admission.py",
        "            in_flight > 0\n            and",
        "            in_flight > 1_000\n            and",
    ),
    Mutant(
        "max_depth is off by one",
        "policies/scope.py",
        "if depth > self._max_depth and not external:",
        "if depth >= self._max_depth and not external:",
    ),
    Mutant(
        "changed pages are visited more rarely",
        "policies/recrawl.py",
        "SHORTER if seen is ContentChange.CHANGED else LONGER",
        "LONGER if seen is ContentChange.CHANGED else SHORTER",
    ),
    Mutant(
        "pages are visited again too early",
        "crawler/processing/recrawl_planner.py",
        "            due_in_s=every_s if ends_at is None else",
        "            due_in_s=every_s / 2 if ends_at is None else",
    ),
)

PERMITS: Final = (
    Mutant(
        "lost wake-up: hosts that wait for an address",
        "crawler/frontier/permits.py",
        "            clock.busy = False\n            self._free(clock)",
        "            clock.busy = False",
    ),
    Mutant(
        "the delay of an address is ignored",
        "crawler/frontier/permits.py",
        "            at_s = max(at_s, clock.ready_s)\n        if self._shared",
        "        if self._shared",
    ),
    Mutant(
        "two contacts at one address at a time",
        "crawler/frontier/permits.py",
        "        if clock:\n            clock.busy = True\n",
        "",
    ),
    Mutant(
        "a contact is not counted for its address",
        "crawler/frontier/permits.py",
        "            self._addresses.ended(permit.address_clock, host, ended_s)\n",
        "            pass\n",
    ),
    Mutant(
        "lost wake-up: after a pause",
        "crawler/frontier/permits.py",
        "            self._resumed_s = self._clock.monotonic()\n        self._pump()",
        "            self._resumed_s = self._clock.monotonic()",
    ),
    Mutant(
        "one request more than crawl.concurrency",
        "crawler/frontier/grant_limits.py",
        "return self.open < self._open_max_now and",
        "return self.open <= self._open_max_now and",
    ),
    Mutant(
        "an address that is new need not wait",
        "crawler/frontier/addresses.py",
        "clock = AddressClock(now_s + delay_s, now_s, leased=not self._shared)",
        "clock = AddressClock(now_s, now_s, leased=not self._shared)",
    ),
    Mutant(
        "a resumed host is not seated again",
        "crawler/frontier/frontier.py",
        "                    self.try_again(host)\n                self.permits.consider(host)",
        "                    self.try_again(host)",
    ),
    Mutant(
        "an outage never ends",
        "crawler/frontier/system_holds.py",
        "            for reason in [reason for reason in self._active if reason in CONNECTING]:\n"
        "                self.end(reason)",
        "            pass",
    ),
    Mutant(
        "no probes during an outage",
        "crawler/frontier/system_holds.py",
        "            self._probe_s = self._clock.monotonic() + delay_s\n"
        "            self._commands.wake_by(self._probe_s)",
        "            pass",
    ),
)

ROBOTS: Final = (
    Mutant(
        "a robots.txt never expires",
        "crawler/frontier/robots_cache.py",
        "        if robots_state.is_due(origin.access, now_s):\n            self.fetch(origin)",
        "        if origin.access.fetched_at is None:\n            self.fetch(origin)",
    ),
    Mutant(
        "pages fetched without robots.txt are not marked",
        "crawler/frontier/robots_cache.py",
        "return GOVERNED if standing.answered else UNGOVERNED",
        "return GOVERNED",
    ),
    Mutant(
        "a robots.txt that could not be fetched is not tried again",
        "crawler/frontier/robots_cache.py",
        "        self._retries.put(origin, at_s)\n",
        "",
    ),
    Mutant(
        "Retry-After of a robots.txt is ignored",
        "policies/robots_state.py",
        "retry_at=now_s + max(wait_s, requested_s or 0.0),",
        "retry_at=now_s + wait_s,",
    ),
    Mutant(
        "one 404 replaces a copy of robots.txt",
        "policies/robots_state.py",
        "if usable and now_s - since < GONE_AGAIN_S:",
        "if usable and now_s < since:",
    ),
    Mutant(
        "a robots.txt that answers 5xx counts as absent",
        "policies/robots_state.py",
        "return _Class.ABSENT if 300 <= status < 500 else _Class.UNREACHABLE",
        "return _Class.ABSENT if 300 <= status < 600 else _Class.UNREACHABLE",
    ),
    Mutant(
        "a robots.txt that answers 429 counts as absent",
        "policies/robots_state.py",
        "    if status == 429:\n        return _Class.UNREACHABLE\n",
        "    if status == 429:\n        return _Class.ABSENT\n",
    ),
    Mutant(
        "the copy is not used while robots.txt cannot be fetched",
        "policies/robots_policy.py",
        "    if state.body is not None and copy_age_s(state, now_s) <= dialect.copy_max_s:\n"
        "        return _governed(state, stale=True)\n    if override",
        "    if override",
    ),
    Mutant(
        "the most lenient of several dialects decides",
        "policies/robots_policy.py",
        "    return min(\n        (_policy(",
        "    return max(\n        (_policy(",
    ),
    Mutant(
        "pages that a late robots.txt forbids stay",
        "crawler/scheduling/rejudging.py",
        "                if not isinstance(verdict, Verdict):\n                    kept",
        "                if isinstance(verdict, Verdict) or verdict is None:\n"
        "                    kept",
    ),
    Mutant(
        "sinks are not told of withdrawn pages",
        "crawler/scheduling/rejudging.py",
        "            self._sinks.withdraw_blocked(url, block)\n",
        "            pass\n",
    ),
    Mutant(
        "what a changed robots.txt allows stays blocked",
        "crawler/scheduling/rejudging.py",
        "                if _verdict(origin, one.url) is None:\n                    freed",
        "                if _verdict(origin, one.url) is UNJUDGED:\n                    freed",
    ),
    Mutant(
        "sinks are not told of pages found forbidden on a revisit",
        "crawler/processing/admission.py",
        "                self._sinks.withdraw_blocked(queued.url, blocked)\n",
        "                pass\n",
    ),
    Mutant(
        "one redirect of robots.txt too few is followed",
        "crawler/downloading/robots_fetcher.py",
        "while redirects <= REDIRECTS_MAX:",
        "while redirects < REDIRECTS_MAX:",
    ),
    Mutant(
        "a changed robots.txt is not marked in the store",
        "crawler/downloading/robots_fetcher.py",
        "                rejudge=rejudge,\n                links=links,",
        "                rejudge=False,\n                links=links,",
    ),
)

STORE: Final = (
    Mutant(
        "caches survive a transaction that was undone",
        "storage/engine/transactions.py",
        "                self._writer = None  # its caches",
        "                pass  # its caches",
    ),
    Mutant(
        "leases survive the death of their session",
        "storage/engine/leases.py",
        '        self._sql.run("void_leases")\n',
        "",
    ),
    Mutant(
        "hosts of a killed process count as clean",
        "storage/engine/leases.py",
        "return structs.replace(self.stored, clock=clock,",
        "return structs.replace(self.stored, clean=True, clock=clock,",
    ),
    Mutant(
        "held URLs are handed out again",
        "storage/engine/leases.py",
        "in_memory = set(chain.from_iterable(want.in_memory for want in wants)).difference(ended)",
        "in_memory = set[int]()",
    ),
    Mutant(
        "the mark of pages fetched without robots.txt is not stored",
        "storage/engine/url_changes.py",
        "        if page.ungoverned:\n            self._put(",
        "        if page.ungoverned and page.again:\n            self._put(",
    ),
    Mutant(
        "the mark of a robots.txt that changed is not stored",
        "storage/engine/robots_copies.py",
        '        if rejudge:\n            self.sql.run("mark_to_rejudge", now_s, key)',
        '        if False:\n            self.sql.run("mark_to_rejudge", now_s, key)',
    ),
    Mutant(
        "the time of a retry is not stored",
        "storage/engine/url_changes.py",
        "due_at = now_s + min(retry.due_in_s, WAIT_S_MAX) if retry.due_in_s > 0 else None",
        "due_at = None",
    ),
    Mutant(
        "backoffs are not stored",
        "storage/engine/leases.py",
        "leased.id, now_s + stored.next_in_s,",
        "leased.id, now_s,",
    ),
    Mutant(
        "the store's time begins anew with each session",
        "storage/timekeeper.py",
        "            self._last_s = max(last_s, self._wall() + shift_s)",
        "            self._last_s = self._wall()",
    ),
    Mutant(
        "links are not stored with their page",
        "storage/engine/writer.py",
        "        linking = () if self.sql.shared else batch.outcomes\n",
        "        linking = () if self.sql.shared else batch.outcomes[1:]\n",
    ),
    Mutant(
        "a host is released before its last outcome",
        "storage/engine/leases.py",
        "                del self._leased[update.slot]\n",
        "                pass\n",
    ),
    Mutant(
        "pages are never due again",
        "storage/engine/recrawl_plans.py",
        "key, slot, now_s + max(0.0, plan.due_in_s), plan.interval_s,",
        "key, slot, now_s + 10 * max(0.0, plan.due_in_s), plan.interval_s,",
    ),
)

WORKERS: Final = (
    Mutant(
        "a worker contacts its hosts after its lease has ended",
        "crawler/clock.py",
        "return self.until_s != math.inf and self._clock.boottime() >= self.until_s",
        "return False",
    ),
    Mutant(
        "a worker keeps its hosts after its lease was lost",
        "crawler/frontier/frontier.py",
        "            for host in list(self.permits):\n                self.lose(host)\n",
        "",
    ),
    Mutant(
        "the delay of an address taken over is ignored",
        "crawler/frontier/addresses.py",
        "clock.ready_s = max(clock.ready_s, now_s + answer.delay_s)",
        "clock.ready_s = now_s",
    ),
    Mutant(
        "orders of other workers are not carried out",
        "crawler/scheduling/shared_crawl.py",
        "                self._orders.append(decode(order))",
        "                decode(order)",
    ),
    Mutant(
        "hosts beyond the share of a worker stay with it",
        "crawler/scheduling/host_leases.py",
        "            self._share_out(count)",
        "            pass",
    ),
    Mutant(
        "each worker thinks that it should have all hosts",
        "crawler/scheduling/fair_share.py",
        "divmod(self._total(own, now_s), 1 + len(counts))",
        "divmod(self._total(own, now_s), 1)",
    ),
    Mutant(
        "hosts are shared out in the middle of their requests",
        "crawler/scheduling/host_leases.py",
        "            if _is_shared(host) and self._may_leave(host)\n",
        "            if _is_shared(host)\n",
    ),
    Mutant(
        "a commit of a lost lease counts",
        "storage/engine/leases.py",
        "            if host is not None and host.id not in still:\n                del",
        "            if host is not None and host.id in ():\n                del",
        on_server=True,
    ),
    Mutant(
        "a session that was ended does not learn of it",
        "storage/postgres/pulses.py",
        "lost=beat is None or self._lineage.reason is not None,",
        "lost=False,",
        on_server=True,
    ),
    Mutant(
        "sessions are ended as soon as they are silent for a moment",
        "storage/postgres/pulses.py",
        "            if now_s - since_s > limits_s[session]\n",
        "            if now_s - since_s > limits_s[session] / 40\n",
        on_server=True,
    ),
)

# Written later, of the same parts of the program.
MORE: Final = (
    Mutant(
        "permits granted before a pause of the crawl are used",
        "crawler/frontier/permits.py",
        "return bool(self.stops.reasons) and not (permit.probe and not self.stops.paused)",
        "return False",
    ),
    Mutant(
        "a permit given back forgets the contact before it",
        "crawler/frontier/pace.py",
        "        if follows_s != NEVER:\n            bisect.insort(self.ends, follows_s)\n",
        "",
    ),
    Mutant(
        "a permit given back keeps its lane",
        "crawler/frontier/pace.py",
        '        """The permit was not used: no contact was made."""\n        self.busy -= 1\n',
        '        """The permit was not used: no contact was made."""\n',
    ),
    Mutant(
        "a probe given back unused is not granted again",
        "crawler/frontier/permits.py",
        "        if permit.probe:\n            self.stops.allow_probes(1)\n        self._over",
        "        self._over",
    ),
    Mutant(
        "hosts are contacted at addresses that another worker leases",
        "crawler/frontier/permits.py",
        "            if clock.busy or not clock.leased:\n",
        "            if clock.busy:\n",
    ),
    Mutant(
        "min for max in the delay of an address of several hosts",
        "crawler/frontier/addresses.py",
        "delays[clock] = max(delays.get(clock, 0.0), delay_s)",
        "delays[clock] = min(delays.get(clock, delay_s), delay_s)",
    ),
    Mutant(
        "addresses count as leased after the leases were lost",
        "crawler/frontier/addresses.py",
        '        """Other workers may have contacted all of them."""\n'
        "        for clock in self._clocks.values():\n            clock.leased = False\n",
        '        """Other workers may have contacted all of them."""\n',
    ),
    Mutant(
        "a refusal counts as an attempt",
        "policies/retries.py",
        "return RetryLater(in_s=0.0, attempts=attempts, refusals=refusals)",
        "return RetryLater(in_s=0.0, attempts=attempts + 1, refusals=refusals)",
    ),
    Mutant(
        "an answer does not end a row of connection failures",
        "crawler/frontier/host_queue.py",
        "            self.tried_before = 0\n        lost =",
        "        lost =",
    ),
    Mutant(
        "failures during an outage are charged",
        "crawler/frontier/system_holds.py",
        "            self._gather(host, result)\n"
        "            result = replace(result, ours=HoldReason.NETWORK)\n        else:",
        "            self._gather(host, result)\n        else:",
    ),
    Mutant(
        "one host more must fail before an outage is seen",
        "policies/holds.py",
        "enough = min(REACHED_MIN, max(hosts_reached, 2))",
        "enough = REACHED_MIN + 1",
    ),
    Mutant(
        "the result of a commit without an answer is not looked up",
        "storage/engine/transactions.py",
        "        return unknown if committed else None",
        "        return None",
    ),
    Mutant(
        "a commit without an answer counts as committed",
        "storage/engine/transactions.py",
        "        return unknown if committed else None",
        "        return unknown",
    ),
    Mutant(
        "a worker's lease lasts from the answer on, not from the question",
        "crawler/scheduling/shared_crawl.py",
        "self._frontier.renewed(asked_boottime_s + pulse.lease_s",
        "self._frontier.renewed(self._clock.boottime() + pulse.lease_s",
    ),
    Mutant(
        "requests in flight go on when the leases expire",
        "crawler/frontier/system_holds.py",
        "            self._commands.put(BREAK_OFF)\n",
        "",
    ),
    Mutant(
        "hosts of a session that ended are never freed",
        "storage/postgres/sql/statements.sql",
        "  SELECT s.id FROM slots AS s WHERE s.lease = (SELECT n.id FROM n)\n  ORDER BY",
        "  SELECT s.id FROM slots AS s WHERE s.lease = -(SELECT n.id FROM n)\n  ORDER BY",
        on_server=True,
    ),
)

MUTANTS: Final = (*PACING, *RETRIES, *FRONTIER, *PERMITS, *ROBOTS, *STORE, *WORKERS, *MORE)
