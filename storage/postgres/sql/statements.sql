-- Named statements of PostgreSQL alone, which a store with several workers needs, and those that differ
-- from SQLite's: in locks, or in how rows are found. This is what all statements rely on, those of
-- storage/sql/statements.sql as well. The isolation level is READ COMMITTED: every statement sees what was
-- committed before it began, which many of them rely on.
--
-- Parameters. Statements for many rows take the rows first, as one array per column, or as one array
-- of a type that is named …_row, and then the scalars. What one transaction writes many rows of is passed in one statement, however many there
-- are. Much is read as one JSON value, the text of an array; flags are 0 or 1 in it.
--
-- Locks. Whoever locks rows of several tables locks slots before origins before URLs, and the rows
-- of one table in the order of their ids, so that workers seldom deadlock. So do the statements that
-- change many rows. A transaction therefore begins with `lock_held`, or `lock_slots`, for all hosts
-- it will write, and calls `lock_urls` before it reads the URLs (`url_states`) that it will change.
-- `settle_slots` works out what other workers may be changing: the slots must have been locked by an
-- earlier statement. Who waited for a lock sees in the next statement what the other one committed.
--
-- Names. Another worker may insert the same name first, and the statement then inserts nothing:
-- - `new_slots`, `new_origins`, `new_texts`: insert, then read again (`slot_ids` and so on). The
--   numbers that were not used are lost. `home_origins` likewise gives a slot only to origins
--   without one; read again which slot they have.
-- - `new_kind`, `new_verdict`, `new_body`: no row is returned; read again.
-- - `new_urls` returns the ids that were inserted. Look up the others again with `known_ids`.
-- - Numbers for new rows are taken in blocks by `next_urls` and so on. See `url_numbers` in
--   schema.sql for how ids of slots, origins and URLs are made from them.
--
-- Caches. Writers cache which slot an origin belongs to, and which URLs are known. A transaction
-- begins with `enter` and then, in a statement of its own, `begin`: if `generation` is not what it
-- was, the caches are emptied. `change_names` waits until no other transaction is under way.
--
-- Failures after which a transaction is to be repeated immediately, with empty caches: 40001, 40P01,
-- and 23503, by which a body is kept that another worker was about to delete, or the other way round.
--
-- Plans. The tables are empty when a connection prepares its first statements, and plans are kept.
-- A store's connection therefore sets what settings.sql says: rows are found by an index, whatever
-- the planner believes of the tables' sizes.

-- ---------------------------------------------------------------- names

-- name: next_slots
SELECT json_agg(nextval('slot_numbers'))::text FROM generate_series(1, $1::bigint);

-- name: next_origins
SELECT json_agg(nextval('origin_numbers'))::text FROM generate_series(1, $1::bigint);

-- name: next_turns
SELECT json_agg(nextval('turn_numbers'))::text FROM generate_series(1, $1::bigint);

-- name: next_texts
SELECT json_agg(nextval('text_numbers'))::text FROM generate_series(1, $1::bigint);

-- ---------------------------------------------------------------- URLs

-- Returns the ids that were inserted.
-- name: new_urls
WITH done AS (
  INSERT INTO urls (
    id, origin, path, state, hidden, depth, priority, turn, flags, referrer, anchor, fingerprint
  )
  SELECT
    v.id, v.origin, v.path, v.state, v.state = 4, v.depth, v.priority, 0, v.flags, v.referrer,
    v.anchor, v.fingerprint
  FROM unnest($1::url_row[]) AS v
  ORDER BY v.origin, v.fingerprint
  ON CONFLICT (origin, fingerprint) DO NOTHING RETURNING id
)
SELECT coalesce(json_agg(id), '[]')::text FROM done;

-- name: hide_urls
UPDATE urls SET hidden = true
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (origin, fingerprint, id)
WHERE urls.id = v.id;

-- name: next_urls
SELECT json_agg(nextval('url_numbers'))::text FROM generate_series(1, $1::bigint);

-- name: lock_urls
SELECT count(*) FROM (
  SELECT u.id FROM unnest($1::bigint[]) AS v (id) JOIN urls AS u ON u.id = v.id
  ORDER BY u.id FOR NO KEY UPDATE OF u
) AS l;

-- name: seed_urls
SELECT coalesce(json_agg(json_build_array(id, url)), '[]')::text FROM (
  SELECT s.id, q.url FROM seeds AS s CROSS JOIN LATERAL (
    SELECT o.name || u.path AS url FROM urls AS u JOIN origins AS o ON o.id = u.origin
    WHERE u.id = s.id OFFSET 0
  ) AS q
  WHERE s.id > $1::bigint ORDER BY s.id LIMIT $2::bigint
) AS q;

-- Of pages without a plan, among some with ids above another. One element: those pages, and the last
-- id that was looked at, NULL if there are no pages after it.
-- name: unplanned
WITH first AS (
  SELECT p.id, p.kind, p.fetched_ms FROM pages AS p WHERE p.id > $1::bigint
  ORDER BY p.id LIMIT $2::bigint
)
SELECT json_build_array(json_build_array(
  (
    SELECT coalesce(
      json_agg(json_build_array(q.id, q.url, q.status, q.fetched_at, q.listing) ORDER BY q.id), '[]'
    )
    FROM (
      SELECT
        p.id, o.name || u.path AS url, k.status, p.fetched_ms / 1e3::double precision AS fetched_at,
        CASE WHEN u.flags & 32 <> 0 THEN (
          SELECT json_build_array(h.lastmod, h.changefreq, h.priority) FROM hints AS h WHERE h.id = u.id
        ) END AS listing
      FROM first AS p JOIN kinds AS k ON k.id = p.kind JOIN urls AS u ON u.id = p.id
      JOIN origins AS o ON o.id = u.origin
      WHERE NOT EXISTS (SELECT 1 FROM plans AS n WHERE n.id = p.id)
    ) AS q
  ),
  (SELECT max(id) FROM first HAVING count(*) = $2::bigint)
))::text;

-- Of a root that is given twice, the last one counts; of one that another worker has put there, the
-- smaller id.
-- name: put_chains
INSERT INTO chains (root, after)
SELECT DISTINCT ON (v.root) v.root, v.after
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS v (root, after, n)
ORDER BY v.root, v.n DESC
ON CONFLICT (root) DO UPDATE SET after = least(chains.after, excluded.after);

-- name: verdict_id
SELECT id FROM verdicts
WHERE (
  robots_url || E'\n' || reason || E'\n' || dialect || E'\n' || coalesce(rule, '') || E'\n'
  || coalesce(line, 0) || E'\n' || coalesce(body, 0)
) = (
  $1::text || E'\n' || $2::text || E'\n' || $3::text || E'\n' || coalesce($4::text, '') || E'\n'
  || coalesce($5::bigint, 0) || E'\n' || coalesce($6::bigint, 0)
);

-- name: add_to_skips
INSERT INTO skips (reason, count, session)
SELECT v.reason, v.count, $3::bigint FROM unnest($1::text[], $2::bigint[]) AS v (reason, count)
ON CONFLICT (reason, session) DO UPDATE SET count = skips.count + excluded.count;

-- ---------------------------------------------------------------- counters and clocks

-- name: lock_slots
SELECT count(*) FROM (
  SELECT s.id FROM unnest($1::bigint[]) AS v (id) JOIN slots AS s ON s.id = v.id
  ORDER BY s.id FOR NO KEY UPDATE OF s
) AS l;

-- name: put_contacts
INSERT INTO contacts (slot, place, start_at, end_at, kind, status)
SELECT DISTINCT ON (v.slot, v.place) v.slot, v.place, v.start_at, v.end_at, v.kind, v.status
FROM unnest($1::contact_row[]) WITH ORDINALITY AS v (slot, place, start_at, end_at, kind, status, n)
ORDER BY v.slot, v.place, v.n DESC
ON CONFLICT (slot, place) DO UPDATE SET
  start_at = excluded.start_at, end_at = excluded.end_at, kind = excluded.kind,
  status = excluded.status;

-- Of this session alone.
-- name: add_to_totals
INSERT INTO totals (session, queued, visited, blocked, failed, body_bytes, hosts)
VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint)
ON CONFLICT (session) DO UPDATE SET
  queued = totals.queued + excluded.queued, visited = totals.visited + excluded.visited,
  blocked = totals.blocked + excluded.blocked, failed = totals.failed + excluded.failed,
  body_bytes = totals.body_bytes + excluded.body_bytes, hosts = totals.hosts + excluded.hosts;

-- ---------------------------------------------------------------- the crawl and its workers

-- The first statement of a transaction. The number is "courtly" in ASCII.
-- name: enter
SELECT pg_advisory_xact_lock_shared(27988572916444281);

-- The first statement of a transaction that moves origins: no other one works with the old names any
-- longer, and those that begin later wait for its end.
-- name: enter_alone
SELECT pg_advisory_xact_lock(27988572916444281);

-- The second one: the server's time, what other workers may have changed, and whether this is what the
-- worker with this session knows.
-- name: begin
SELECT
  extract(epoch FROM clock_timestamp())::double precision, shift_s, steps, generation,
  (SELECT last_value - (NOT is_called)::integer FROM ticks),  -- the newest that was drawn
  returns, settled, version, fingerprint, (SELECT n.beat FROM sessions AS n WHERE n.id = $1::bigint),
  (SELECT t.commits FROM totals AS t WHERE t.session = $1::bigint)
FROM crawl;

-- NULL if the transaction has changed nothing.
-- name: transaction_id
SELECT pg_current_xact_id_if_assigned()::text;

-- Counts a commit of a session that has begun: its transaction, and its number. No row as above.
-- name: count_commit
INSERT INTO totals AS t (session, queued, visited, blocked, failed, hosts, body_bytes, commits)
SELECT $1::bigint, 0, 0, 0, 0, 0, 0, 1 WHERE pg_current_xact_id_if_assigned() IS NOT NULL
ON CONFLICT (session) DO UPDATE SET commits = t.commits + 1
RETURNING pg_current_xact_id_if_assigned()::text, commits;

-- What became of a transaction whose commit was not answered: 'committed', 'aborted', 'in progress',
-- or NULL if it is too long ago.
-- name: transaction_status
SELECT pg_xact_status($1::text::xid8);

-- The server's clock made a step: this worker corrects the store's time, unless another has.
-- name: correct_shift
UPDATE crawl SET shift_s = shift_s + $1::double precision, steps = steps + 1
WHERE steps = $2::bigint RETURNING shift_s, steps;

-- Has other workers empty their caches. At the end of a transaction, because the row is shared.
-- name: change_names
UPDATE crawl SET generation = generation + 1;

-- name: crawl
SELECT
  session, greatest(last_at, (SELECT max(n.beat_at) FROM sessions AS n) + shift_s), shift_s
FROM crawl;

-- name: begin_session
INSERT INTO sessions (id, name, began_at, beat_at)
VALUES ($1::bigint, $2::text, $3::double precision, extract(epoch FROM clock_timestamp()))
ON CONFLICT (id) DO UPDATE SET
  name = excluded.name, began_at = excluded.began_at, beat_at = excluded.beat_at, ended_at = NULL;

-- name: place_session
UPDATE sessions SET machine = $2::text, pid = $3::integer WHERE id = $1::bigint;

-- No row is changed if the session has been ended. It then holds nothing any more: see `revive`.
-- name: beat
UPDATE sessions SET
  beat = beat + 1, beat_at = extract(epoch FROM clock_timestamp()), idle = $2::boolean,
  sharing = $3::bigint, hosts = $4::bigint, in_flight = $5::bigint, pages = $6::bigint,
  pages_per_s = $7::double precision, uncommitted = $8::bigint, lease_s = $9::double precision,
  held = $10::text, last_at = $11::double precision
WHERE id = $1::bigint AND ended_at IS NULL
RETURNING beat;

-- Other live sessions.
-- name: others
SELECT coalesce(
  json_agg(json_build_array(id, beat, lease_s, idle::integer, sharing) ORDER BY id), '[]'
)::text
FROM sessions WHERE ended_at IS NULL AND id <> $1::bigint;

-- Holds the addresses of $2, given with their delays, as far as no other session does, and frees
-- the session's others. Returns those that it holds. A session that is being reaped holds none: `reap` waits
-- for this, or this finds it ended.
-- name: lease_addresses
WITH l AS MATERIALIZED (
  SELECT id FROM sessions WHERE id = $1::bigint AND ended_at IS NULL FOR KEY SHARE
),
asked AS MATERIALIZED (
  SELECT key AS name, value::double precision AS rest_s FROM json_each_text($2::json)
),
freed AS (
  UPDATE addresses SET session = NULL, wanted = false
  WHERE session = $1::bigint AND name NOT IN (SELECT asked.name FROM asked)
),
done AS (
  INSERT INTO addresses AS a (name, session, rest_s)
  SELECT asked.name, l.id, asked.rest_s FROM asked, l ORDER BY asked.name
  ON CONFLICT (name) DO UPDATE SET
    session = coalesce(a.session, excluded.session),
    rest_s = greatest(a.rest_s, excluded.rest_s),
    wanted = a.wanted OR coalesce(a.session <> excluded.session, false)
  RETURNING a.name, a.session, a.rest_s, a.wanted
)
SELECT coalesce(json_agg(json_build_array(name, rest_s, wanted::integer)), '[]')::text
FROM done WHERE session = $1::bigint;

-- Ends a session that has not renewed itself since `beat`. It waits for the transaction in which
-- that session is leasing hosts, so that `void_some` finds them all.
-- name: reap
WITH l AS (
  SELECT id FROM sessions WHERE id = $1::bigint AND beat = $2::bigint AND ended_at IS NULL
  FOR UPDATE
)
UPDATE sessions SET ended_at = extract(epoch FROM clock_timestamp()) FROM l WHERE sessions.id = l.id;

-- Frees some hosts of a session that has ended, which stay not clean, and returns them; and its
-- addresses. The same transaction then settles them; the last one returns none.
-- name: void_some
WITH n AS (
  SELECT id FROM sessions WHERE id = $1::bigint AND ended_at IS NOT NULL FOR SHARE
),
addresses_freed AS (
  UPDATE addresses SET session = NULL, wanted = false WHERE session = (SELECT n.id FROM n)
),
l AS (
  SELECT s.id FROM slots AS s WHERE s.lease = (SELECT n.id FROM n)
  ORDER BY s.id LIMIT $2::bigint FOR NO KEY UPDATE OF s
),
done AS (
  UPDATE slots SET lease = NULL FROM l WHERE slots.id = l.id RETURNING slots.id
)
SELECT coalesce(json_agg(id ORDER BY id), '[]')::text FROM done;

-- A session that was reaped continues, after `void_some` has returned none for it.
-- name: revive
UPDATE sessions SET ended_at = NULL, beat = beat + 1 WHERE id = $1::bigint;

-- An order has a larger id than all that were committed before: publishers wait for each other.
-- name: publish
WITH l AS MATERIALIZED (SELECT id FROM crawl FOR UPDATE)
INSERT INTO orders (session, at, verb, body)
SELECT $1::bigint, extract(epoch FROM clock_timestamp()), $2::text, $3::json FROM l;

-- name: newest_order
SELECT coalesce(max(id), 0) FROM orders;

-- Of other sessions.
-- name: orders_after
SELECT coalesce(json_agg(json_build_array(id, verb, body) ORDER BY id), '[]')::text
FROM orders WHERE session <> $1::bigint AND id > $2::bigint;

-- name: drop_orders
DELETE FROM orders WHERE at < extract(epoch FROM clock_timestamp()) - 3600;

-- name: workers
SELECT
  id, name, machine, pid, began_at,
  extract(epoch FROM clock_timestamp())::double precision - coalesce(beat_at, began_at), idle,
  hosts, in_flight, pages, pages_per_s, uncommitted, held
FROM sessions WHERE ended_at IS NULL ORDER BY id;

-- Who keeps a connection of this server waiting for a lock. Of other users, little is shown.
-- name: blockers
SELECT b.pid, a.usename::text, a.application_name
FROM (SELECT DISTINCT unnest(pg_blocking_pids($1::integer)) AS pid) AS b
LEFT JOIN pg_stat_activity AS a ON a.pid = b.pid ORDER BY 1;

-- With a renewal.
-- name: pulse_state
SELECT
  paused, returns, settled, (SELECT n.beat FROM sessions AS n WHERE n.id = $1::bigint),
  (SELECT t.commits FROM totals AS t WHERE t.session = $1::bigint)
FROM crawl;

-- All workers that did not know of the return have lost their leases by now.
-- name: settle_return
UPDATE crawl SET settled = $1::bigint WHERE returns = $1::bigint AND settled < returns;

-- Forgets sessions that have ended; what they counted is kept.
-- name: forget_sessions
WITH old AS (
  DELETE FROM sessions WHERE id <= $1::bigint AND ended_at IS NOT NULL RETURNING id
),
sums AS (
  DELETE FROM totals USING old WHERE totals.session = old.id RETURNING totals.*
),
counts AS (
  DELETE FROM skips USING old WHERE skips.session = old.id RETURNING skips.reason, skips.count
),
added AS (
  INSERT INTO skips (reason, session, count)
  SELECT reason, 0, sum(count) FROM counts GROUP BY reason
  ON CONFLICT (reason, session) DO UPDATE SET count = skips.count + excluded.count
)
INSERT INTO totals (session, queued, visited, blocked, failed, hosts, body_bytes)
SELECT 0, sum(queued), sum(visited), sum(blocked), sum(failed), sum(hosts), sum(body_bytes)
FROM sums HAVING count(*) > 0
ON CONFLICT (session) DO UPDATE SET
  queued = totals.queued + excluded.queued, visited = totals.visited + excluded.visited,
  blocked = totals.blocked + excluded.blocked, failed = totals.failed + excluded.failed,
  hosts = totals.hosts + excluded.hosts, body_bytes = totals.body_bytes + excluded.body_bytes;

-- When a session begins or ends: the row is shared by all workers.
-- name: put_time
UPDATE crawl SET last_at = greatest(last_at, $1::double precision);

-- name: totals
SELECT
  coalesce(sum(visited), 0)::bigint, coalesce(sum(blocked), 0)::bigint,
  coalesce(sum(failed), 0)::bigint, coalesce(sum(queued), 0)::bigint,
  coalesce(sum(hosts), 0)::bigint, coalesce(sum(body_bytes), 0)::bigint,
  (SELECT returns FROM crawl), (SELECT returned_at FROM crawl)
FROM totals;

-- ---------------------------------------------------------------- leases

-- Free hosts that rest from their last contact alone, and whose delay could be computed anew.
-- name: recheck_delays
WITH l AS (
  SELECT s.id FROM slots AS s
  WHERE s.lease IS NULL AND s.next_at > $1::double precision AND s.ended_at < s.next_at
  AND s.next_at <= s.ended_at + s.delay_s + 0.001
  AND (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = s.id LIMIT $2::bigint) AS c)
    < $2::bigint
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET next_at = ended_at FROM l WHERE slots.id = l.id RETURNING slots.id;

-- Locks hosts of a commit, and returns those that this session still holds.
-- name: lock_held
WITH l AS (
  SELECT s.id, s.lease, s.epoch, v.epoch AS expected
  FROM unnest($1::bigint[], $2::bigint[]) AS v (id, epoch) JOIN slots AS s ON s.id = v.id
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
SELECT coalesce(json_agg(l.id), '[]')::text
FROM l WHERE l.lease = $3::bigint AND l.epoch = l.expected;

-- Whether a session has not been ended; nobody ends it before this transaction has ended.
-- name: live_session
SELECT id FROM sessions WHERE id = $1::bigint AND ended_at IS NULL FOR KEY SHARE;

-- Leases hosts that are free, for a session that has not been reaped. The lock of its row makes
-- `reap` wait for this transaction; a renewal need not wait.
-- name: lease
WITH n AS (
  SELECT id FROM sessions WHERE id = $3::bigint AND ended_at IS NULL FOR KEY SHARE
),
l AS (
  SELECT s.id, v.served, n.id AS session
  FROM n CROSS JOIN unnest($1::bigint[], $2::bigint[]) AS v (id, served)
  JOIN slots AS s ON s.id = v.id WHERE s.lease IS NULL
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET lease = l.session, epoch = epoch + 1, clean = 0, served = l.served
FROM l WHERE slots.id = l.id;

-- What has fallen due joins the queue at its place; where that is very much, some at a time.
-- name: promote
WITH w AS (
  SELECT u.id FROM unnest($1::bigint[]) AS v (slot) CROSS JOIN LATERAL (
    SELECT u.id FROM origins AS o JOIN urls AS u
    ON u.origin = o.id AND u.state = 0 AND u.due_at <= $2::double precision
    WHERE o.slot = v.slot AND o.pending LIMIT $3::bigint
  ) AS u
),
l AS (
  SELECT u.id FROM w JOIN urls AS u ON u.id = w.id WHERE u.state = 0
  ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET due_at = NULL FROM l WHERE urls.id = l.id;

-- ---------------------------------------------------------------- robots.txt

-- Bodies that no copy and no verdict needs any longer. One that another worker is about to refer to
-- is left.
-- name: drop_bodies
WITH l AS (
  SELECT b.id FROM unnest($1::bigint[]) AS v (id) JOIN bodies AS b ON b.id = v.id
  WHERE NOT EXISTS (SELECT 1 FROM copies AS c WHERE c.body = b.id)
  AND NOT EXISTS (SELECT 1 FROM earlier_copies AS e WHERE e.body = b.id)
  AND NOT EXISTS (SELECT 1 FROM verdicts AS d WHERE d.body = b.id)
  ORDER BY b.id FOR UPDATE OF b SKIP LOCKED
)
DELETE FROM bodies USING l WHERE bodies.id = l.id;

-- name: mark_all_to_rejudge
WITH l AS (
  SELECT id FROM origins WHERE rejudge_at IS NULL AND judgeable ORDER BY id FOR NO KEY UPDATE
)
UPDATE origins SET rejudge_at = $1::double precision FROM l WHERE origins.id = l.id;

-- name: robots_due
SELECT s.name, o.name FROM origins AS o CROSS JOIN LATERAL (
  SELECT h.name FROM slots AS h
  WHERE h.id = o.slot AND h.lease IS NULL AND h.paused = 0
  AND greatest(h.next_at, h.backoff_until) <= $2::double precision OFFSET 0
) AS s
WHERE o.robots_at IS NOT NULL AND o.governs AND o.robots_at <= $1::double precision
ORDER BY o.robots_at LIMIT $3::bigint;

-- As `next_revisit`.
-- name: next_robots
SELECT
  o.robots_at - $1::double precision, greatest(s.next_at, s.backoff_until) - $2::double precision
FROM origins AS o CROSS JOIN LATERAL (
  SELECT h.next_at, h.backoff_until FROM slots AS h
  WHERE h.id = o.slot AND h.lease IS NULL AND h.paused = 0 OFFSET 0
) AS s
WHERE o.robots_at IS NOT NULL AND o.governs
ORDER BY o.robots_at LIMIT 1000;

-- ---------------------------------------------------------------- by hand, and in bulk

-- Some queued URLs of a host, or of one of its origins; the pieces of a bulk are small, so that the
-- store is not held for long. They are locked.
-- name: some_queued
SELECT coalesce(json_agg(json_build_array(id, origin)), '[]')::text FROM (
  SELECT u.id, u.origin FROM urls AS u WHERE u.state = 0 AND u.id = ANY (ARRAY(
    SELECT q.id FROM origins AS o CROSS JOIN LATERAL (
      SELECT w.id FROM urls AS w WHERE w.origin = o.id AND w.state = 0 AND w.due_at IS NULL
      UNION ALL
      SELECT w.id FROM urls AS w WHERE w.origin = o.id AND w.state = 0 AND w.due_at IS NOT NULL
    ) AS q
    WHERE o.slot = $1::bigint AND ($2::text IS NULL OR o.name = $2::text) AND o.pending
    LIMIT $3::bigint
  ))
  ORDER BY u.id FOR NO KEY UPDATE OF u
) AS q;

-- name: suspect
WITH l AS (
  SELECT u.id FROM json_array_elements_text($1::json) AS v (value)
  JOIN urls AS u ON u.id = v.value::bigint ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET
  flags = urls.flags | 64,
  due_at = CASE
    WHEN urls.state = 0 AND urls.flags & 16 = 0 THEN greatest(urls.due_at, $2::double precision)
    ELSE urls.due_at
  END
FROM l WHERE urls.id = l.id;

-- ---------------------------------------------------------------- the history of the crawl

-- Rows that another worker is folding are left to it.
-- name: fold_history
DELETE FROM history WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM history WHERE step_s = $1::bigint AND at < $2::bigint
  ORDER BY at, session LIMIT $3::bigint FOR UPDATE SKIP LOCKED
))
RETURNING step_s, at, session, observed_s, queued, counts, durations;

-- The rows of steps that several sessions have counted. Workers that merge together wait for each
-- other, in the order of the rows, and find that those of the first are gone.
-- name: merge_history
DELETE FROM history AS h USING (
  SELECT step_s, at, session FROM history
  WHERE step_s = $1::bigint AND at IN (
    SELECT at FROM history WHERE step_s = $1::bigint AND at < $2::bigint
    GROUP BY at HAVING count(*) > 1 ORDER BY at LIMIT $3::bigint
  )
  ORDER BY at, session FOR UPDATE
) AS old
WHERE h.step_s = old.step_s AND h.at = old.at AND h.session = old.session
RETURNING h.step_s, h.at, h.session, h.observed_s, h.queued, h.counts, h.durations;

-- ---------------------------------------------------------------- for readers

-- The number of URLs is exact until there are very many.
-- name: sizes
SELECT
  (
    SELECT CASE
      WHEN c.reltuples < 100000 THEN (SELECT count(*) FROM urls) ELSE c.reltuples::bigint
    END
    FROM pg_class AS c WHERE c.oid = 'urls'::regclass
  ),
  (SELECT count(*) FROM origins), (SELECT count(*) FROM copies);

-- name: table_sizes
SELECT
  c.relname::text, pg_total_relation_size(c.oid), pg_stat_get_live_tuples(c.oid),
  pg_stat_get_dead_tuples(c.oid)
FROM pg_class AS c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
  AND NOT EXISTS (
    SELECT FROM pg_depend
    WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e'  -- an extension's
  )
ORDER BY 2 DESC, 1 LIMIT $1::bigint;

-- name: robots_of_slot
SELECT
  r.origin, r.host, r.state, r.status, r.fetched_at, r.expires_at, r.retry_at, r.body_bytes,
  r.failures, r.error, r.truncated
FROM robots AS r
WHERE r.id = ANY (ARRAY(SELECT o.id FROM origins AS o WHERE o.slot = $1::bigint))
ORDER BY r.origin;

-- Of a host with several origins, one that is not governed by rules.
-- name: robots_states
SELECT coalesce(json_agg(json_build_array(v.host, (
  SELECT r.state FROM robots AS r WHERE r.id = ANY (ARRAY(
    SELECT o.id FROM slots AS s JOIN origins AS o ON o.slot = s.id WHERE s.name = v.host
  ))
  ORDER BY r.state = 'rules', r.id LIMIT 1
))), '[]')::text
FROM unnest($1::text[]) AS v (host);
