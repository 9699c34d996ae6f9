-- Statements of SQLite alone, and those that differ from PostgreSQL's: a file has one writer, which
-- holds every lease, numbers its rows itself, and locks nothing. Where one row of VALUES stands in a
-- statement, it is run for many rows at once (storage/sqlite/statements.py), and rows whose first
-- column is NULL are padding.

-- ---------------------------------------------------------------- URLs

-- name: new_urls
WITH v(id, origin, path, state, depth, priority, flags, referrer, anchor) AS (
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO urls (id, origin, path, state, depth, priority, turn, flags, referrer, anchor)
SELECT v.id, v.origin, v.path, v.state, v.depth, v.priority, 0, v.flags, v.referrer, v.anchor
FROM v WHERE v.id IS NOT NULL;

-- name: new_known
WITH v(origin, fingerprint, id, depth) AS (VALUES (?, ?, ?, ?))
INSERT INTO known (origin, fingerprint, id, depth)
SELECT v.origin, v.fingerprint, v.id, v.depth FROM v WHERE v.origin IS NOT NULL;

-- name: known_again
WITH v(origin, fingerprint, id, depth) AS (VALUES (?, ?, ?, ?))
UPDATE known SET id = v.id, depth = v.depth FROM v
WHERE known.origin = v.origin AND known.fingerprint = v.fingerprint;

-- name: hide_urls
WITH v(origin, fingerprint, id) AS (VALUES (?, ?, ?))
UPDATE known SET id = -v.id FROM v
WHERE known.origin = v.origin AND known.fingerprint = v.fingerprint;

-- name: seed_urls
SELECT json_group_array(json_array(id, url)) FROM (
  SELECT s.id, o.name || u.path AS url FROM seeds AS s
  CROSS JOIN urls AS u ON u.id = s.id CROSS JOIN origins AS o ON o.id = u.origin
  WHERE s.id > ? ORDER BY s.id LIMIT ?
);

-- Pages without a plan among some ids, and the last of these ids, unless there are none above it.
-- name: unplanned
SELECT json_array(json_array(
  json_group_array(json_array(id, url, status, fetched_at, json(listing))),
  iif(?1 + ?2 < (SELECT max(id) FROM urls), ?1 + ?2, NULL)
)) FROM (
  SELECT
    p.id, o.name || u.path AS url, k.status, p.fetched_ms / 1e3 AS fetched_at,
    iif(u.flags & 32, (
      SELECT json_array(h.lastmod, h.changefreq, h.priority) FROM hints AS h WHERE h.id = u.id
    ), NULL) AS listing
  FROM pages AS p CROSS JOIN kinds AS k ON k.id = p.kind CROSS JOIN urls AS u ON u.id = p.id
  CROSS JOIN origins AS o ON o.id = u.origin
  WHERE p.id > ?1 AND p.id <= ?1 + ?2 AND NOT EXISTS (SELECT 1 FROM plans AS n WHERE n.id = p.id)
  ORDER BY p.id
);

-- name: put_chains
WITH v(root, after) AS (VALUES (?, ?))
INSERT OR REPLACE INTO chains (root, after) SELECT v.root, v.after FROM v WHERE v.root IS NOT NULL;

-- name: verdict_id
SELECT id FROM verdicts
WHERE robots_url = ? AND reason = ? AND dialect = ? AND coalesce(rule, '') = coalesce(?, '')
  AND coalesce(line, 0) = coalesce(?, 0) AND coalesce(body, 0) = coalesce(?, 0);

-- name: add_to_skips
WITH v(reason, count) AS (VALUES (?, ?))
INSERT INTO skips (reason, count) SELECT v.reason, v.count FROM v WHERE v.reason IS NOT NULL
ON CONFLICT (reason) DO UPDATE SET count = count + excluded.count;

-- ---------------------------------------------------------------- counters and clocks

-- name: put_contacts
WITH v(slot, place, start_at, end_at, kind, status) AS (VALUES (?, ?, ?, ?, ?, ?))
INSERT OR REPLACE INTO contacts SELECT v.* FROM v WHERE v.slot IS NOT NULL;

-- ---------------------------------------------------------------- sessions and leases

-- name: crawl
SELECT session, last_at, shift_s FROM crawl;

-- name: uptime
SELECT boot, uptime_s FROM crawl WHERE id = 1;

-- name: new_crawl
INSERT INTO crawl (id, session, last_at, shift_s) VALUES (1, 0, ?, 0.0);

-- name: begin_session
INSERT OR REPLACE INTO sessions (id, name, began_at) VALUES (?, ?, ?);

-- Free hosts that rest from their last contact alone, and whose delay could be computed anew.
-- name: recheck_delays
UPDATE slots SET next_at = ended_at
WHERE lease IS NULL AND next_at > ?1 AND ended_at < next_at
AND next_at <= ended_at + delay_s + 0.001
AND (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = slots.id LIMIT ?2)) < ?2
RETURNING id;

-- name: forget_sessions
DELETE FROM sessions WHERE id <= ?;

-- name: distrust
UPDATE crawl SET distrusted = ? WHERE id = 1;

-- name: put_time
UPDATE crawl SET last_at = ?, shift_s = ?, boot = ?, uptime_s = ?;

-- name: leased
SELECT json_group_array(id) FROM slots WHERE lease IS NOT NULL;

-- name: void_leases
UPDATE slots SET lease = NULL WHERE lease IS NOT NULL;

-- name: totals
SELECT
  coalesce(sum(visited), 0), coalesce(sum(blocked), 0), coalesce(sum(failed), 0),
  coalesce(sum(queued), 0), count(*), coalesce(sum(body_bytes), 0),
  0, NULL  -- a database on a server may go back in time
FROM slots;

-- name: newest_ids
SELECT
  (SELECT coalesce(max(id), 0) FROM urls), (SELECT coalesce(max(id), 0) FROM slots),
  (SELECT coalesce(max(id), 0) FROM origins), (SELECT coalesce(max(id), 0) FROM texts);

-- name: lease
WITH v(id, served) AS (VALUES (?, ?))
UPDATE slots SET lease = ?, epoch = epoch + 1, clean = 0, served = v.served
FROM v WHERE slots.id = v.id;

-- What has fallen due joins the queue at its place; where that is very much, some at a time.
-- name: promote
WITH v(slot) AS (VALUES (?))
UPDATE urls SET due_at = NULL WHERE id IN (
  SELECT w.id FROM v CROSS JOIN urls AS w ON w.id IN (
    SELECT u.id FROM origins AS o CROSS JOIN urls AS u
    ON u.origin = o.id AND u.state = 0 AND u.due_at <= ?
    WHERE o.slot = v.slot AND o.pending = 1 LIMIT ?
  )
);

-- ---------------------------------------------------------------- robots.txt

-- Bodies that no copy and no verdict needs any longer.
-- name: drop_bodies
WITH v(id) AS (VALUES (?))
DELETE FROM bodies WHERE id IN (SELECT v.id FROM v)
AND NOT EXISTS (SELECT 1 FROM copies AS c WHERE c.body = bodies.id)
AND NOT EXISTS (SELECT 1 FROM earlier_copies AS e WHERE e.body = bodies.id)
AND NOT EXISTS (SELECT 1 FROM verdicts AS d WHERE d.body = bodies.id);

-- name: mark_all_to_rejudge
UPDATE origins SET rejudge_at = ? WHERE rejudge_at IS NULL AND judged + ungoverned > 0;

-- name: robots_due
SELECT s.name, o.name FROM origins AS o JOIN slots AS s ON s.id = o.slot
WHERE o.robots_at IS NOT NULL AND o.governs = 1 AND o.robots_at <= ?
AND s.lease IS NULL AND s.paused = 0 AND max(s.next_at, coalesce(s.backoff_until, s.next_at)) <= ?
ORDER BY o.robots_at LIMIT ?;

-- In order of their due time, so that the search for the first that may be asked ends where that
-- alone is later than the best.
-- name: next_robots
SELECT o.robots_at - ?, max(s.next_at, coalesce(s.backoff_until, s.next_at)) - ?
FROM origins AS o JOIN slots AS s ON s.id = o.slot
WHERE o.robots_at IS NOT NULL AND o.governs = 1
AND s.lease IS NULL AND s.paused = 0
ORDER BY o.robots_at;

-- ---------------------------------------------------------------- by hand, and in bulk

-- Some queued URLs of a host, or of one of its origins; the pieces of a bulk are small, so that the
-- store is not held for long.
-- name: some_queued
SELECT json_group_array(json_array(id, origin)) FROM (
  SELECT u.id, u.origin FROM origins AS o CROSS JOIN urls AS u ON u.origin = o.id
  WHERE o.slot = ?1 AND (?2 IS NULL OR o.name = ?2) AND o.pending = 1
    AND u.state = 0 AND u.due_at IS NULL
  UNION ALL
  SELECT u.id, u.origin FROM origins AS o CROSS JOIN urls AS u ON u.origin = o.id
  WHERE o.slot = ?1 AND (?2 IS NULL OR o.name = ?2) AND o.pending = 1
    AND u.state = 0 AND u.due_at IS NOT NULL
  LIMIT ?3
);

-- name: suspect
UPDATE urls SET flags = flags | 64,
  due_at = iif(state = 0 AND NOT flags & 16, max(coalesce(due_at, 0), ?2), due_at)
WHERE id IN (SELECT value FROM json_each(?1));

-- ---------------------------------------------------------------- the history of the crawl

-- name: fold_history
DELETE FROM history WHERE (step_s, at, session) IN (
  SELECT step_s, at, session FROM history WHERE step_s = ? AND at < ? ORDER BY at, session LIMIT ?
)
RETURNING step_s, at, session, observed_s, queued, counts, durations;

-- The rows of steps that several sessions have counted.
-- name: merge_history
DELETE FROM history WHERE step_s = ?1 AND at IN (
  SELECT at FROM history WHERE step_s = ?1 AND at < ?2 GROUP BY at HAVING count(*) > 1 LIMIT ?3
)
RETURNING step_s, at, session, observed_s, queued, counts, durations;

-- ---------------------------------------------------------------- for readers

-- Ids of URLs have no gaps, so the largest is their number.
-- name: sizes
SELECT
  (SELECT coalesce(max(id), 0) FROM urls), (SELECT count(*) FROM origins),
  (SELECT count(*) FROM copies);

-- name: robots_of_slot
SELECT
  r.origin, r.host, r.state, r.status, r.fetched_at, r.expires_at, r.retry_at, r.body_bytes,
  r.failures, r.error, r.truncated
FROM origins AS o JOIN robots AS r ON r.id = o.id WHERE o.slot = ? ORDER BY r.origin;

-- Of a host with several origins, one that is not governed by rules.
-- name: robots_states
WITH v(host) AS (VALUES (?))
SELECT json_group_array(json_array(v.host, (
  SELECT r.state FROM robots AS r WHERE r.host = v.host ORDER BY r.state = 'rules', r.id LIMIT 1
)))
FROM v WHERE v.host IS NOT NULL;
