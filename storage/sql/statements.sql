-- Named statements of both engines: storage/sql_source.py describes the words that are not
-- SQL. Those of one engine are in storage/sqlite/sql and storage/postgres/sql.
-- Much is read as one JSON value: every row fetched from the store's thread costs a contest for the
-- interpreter's lock with a busy event loop, and so does every statement.

-- ---------------------------------------------------------------- names

-- name: slot_ids
WITH v (name text) AS ROWS
SELECT json_rows(json_array(s.name, s.id)) FROM v CROSS JOIN slots AS s ON s.name = v.name;

-- name: new_slots
WITH v (id bigint, name text) AS ROWS
INSERT INTO slots (id, name, ready_at, next_at)
SELECT v.id, v.name, $1::double precision, $2::double precision FROM v
{postgres: ORDER BY v.name ON CONFLICT DO NOTHING};

-- name: origin_ids
WITH v (name text) AS ROWS
SELECT json_rows(json_array(o.name, o.id, o.slot, s.name))
FROM v CROSS JOIN origins AS o ON o.name = v.name LEFT JOIN slots AS s ON s.id = o.slot;

-- name: new_origins
WITH v (id bigint, name text, hostname text, slot bigint) AS ROWS
INSERT INTO origins (id, name, hostname, slot) SELECT v.* FROM v
{postgres: ORDER BY v.name ON CONFLICT DO NOTHING};

-- name: text_ids
WITH v (text text) AS ROWS
SELECT json_rows(json_array(t.text, t.id)) FROM v CROSS JOIN texts AS t ON t.text = v.text;

-- name: new_texts
WITH v (id bigint, text text) AS ROWS
INSERT INTO texts (id, text) SELECT v.* FROM v
{postgres: ORDER BY v.text ON CONFLICT DO NOTHING};

-- name: kind_id
SELECT id FROM kinds
WHERE status = $1::bigint AND directives = $2::bigint
AND coalesce(content_type, 0) = coalesce($3::bigint, 0)
AND coalesce(usage, 0) = coalesce($4::bigint, 0) AND coalesce(cut, 0) = coalesce($5::bigint, 0);

-- name: new_kind
INSERT INTO kinds (status, directives, content_type, usage, cut)
VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint)
{postgres: ON CONFLICT DO NOTHING} RETURNING id;

-- ---------------------------------------------------------------- URLs

-- name: secret
SELECT bytes FROM secret;

-- name: known_ids
WITH v (n bigint, origin bigint, fingerprint bigint) AS ROWS OF place_row
SELECT json_rows(json_array(v.n, k.id, k.depth))
FROM v CROSS JOIN known AS k ON k.origin = v.origin AND k.fingerprint = v.fingerprint;

-- name: found_again
WITH v (
  id bigint, depth bigint, priority double precision, flags bigint, referrer bigint, anchor text
) AS ROWS
UPDATE urls SET
  state = 0, depth = v.depth, priority = v.priority, turn = 0, due_at = NULL,
  {postgres: hidden = false,}
  flags = (urls.flags & 162) | v.flags, referrer = v.referrer, anchor = v.anchor
FROM v WHERE urls.id = v.id;

-- name: queued_ids
WITH v (id bigint) AS ROWS
SELECT json_rows(u.id) FROM v CROSS JOIN urls AS u ON u.id = v.id WHERE u.state = 0;

-- name: lower_depths
WITH v (id bigint, depth bigint) AS ROWS
UPDATE urls SET depth = v.depth
FROM v WHERE urls.id = v.id AND v.depth < urls.depth;

-- name: make_seeds
WITH v (id bigint, depth bigint) AS ROWS
UPDATE urls SET depth = least(urls.depth, v.depth), flags = urls.flags | 1
FROM v WHERE urls.id = v.id;

-- name: new_seeds
WITH v (id bigint) AS ROWS
INSERT INTO seeds (id) SELECT v.id FROM v {postgres: ORDER BY v.id} ON CONFLICT DO NOTHING;

-- name: session_names
SELECT json_rows(name) FROM (SELECT name FROM sessions ORDER BY id DESC LIMIT 20) AS q;

-- name: query_counts
WITH v (origin bigint, path bigint) AS ROWS
SELECT json_rows(json_array(q.origin, q.path, q.count))
FROM v CROSS JOIN queries AS q ON q.origin = v.origin AND q.path = v.path;

-- Two workers may have counted from the same number: what they found meanwhile may exceed the limit.
-- name: put_query_counts
WITH v (origin bigint, path bigint, count bigint) AS ROWS
INSERT INTO queries (origin, path, count) SELECT v.* FROM v
ON CONFLICT (origin, path) DO UPDATE SET count = greatest(queries.count, excluded.count);

-- Most are queued: what only those of another state have is looked for there alone.
-- name: url_states
WITH v (id bigint) AS ROWS
SELECT json_rows(
  json_array(
    u.id, u.origin, o.slot, s.name, u.state, u.flags,
    CASE u.state WHEN 1 THEN (SELECT p.body_bytes FROM pages AS p WHERE p.id = u.id) ELSE 0 END,
    CASE WHEN u.state = 1 AND EXISTS (
      SELECT 1 FROM ungoverned AS g WHERE g.origin = u.origin AND g.id = u.id
    ) THEN 1 ELSE 0 END,
    CASE u.state
      WHEN 2 THEN (SELECT b.judged FROM blocks AS b WHERE b.origin = u.origin AND b.id = u.id) ELSE 0
    END,
    CASE u.state
      WHEN 2 THEN (SELECT b.withdrawn FROM blocks AS b WHERE b.origin = u.origin AND b.id = u.id)
      ELSE 0
    END,
    CASE WHEN u.state = 4 AND EXISTS (SELECT 1 FROM plans AS n WHERE n.id = u.id) THEN 1 ELSE 0 END
  )
)
FROM v CROSS JOIN urls AS u ON u.id = v.id
CROSS JOIN origins AS o ON o.id = u.origin
LEFT JOIN slots AS s ON s.id = o.slot;

-- name: url_names
WITH v (id bigint) AS ROWS
SELECT json_rows(json_array(u.id, o.name || u.path))
FROM v CROSS JOIN urls AS u ON u.id = v.id CROSS JOIN origins AS o ON o.id = u.origin;

-- name: move_urls
WITH v (id bigint, state smallint, turn bigint, due_at double precision, flags bigint) AS ROWS OF move_row
UPDATE urls SET
  state = v.state, {sqlite: turn = v.turn}{postgres: turn = least(v.turn, 2147483647)},
  due_at = v.due_at, flags = v.flags
FROM v WHERE urls.id = v.id;

-- name: new_pages
WITH v (
  id bigint, kind bigint, fetched_ms bigint, body_bytes bigint, elapsed_us bigint, title text,
  canonical bigint, body_hash bigint
) AS ROWS OF page_row
INSERT INTO pages (id, kind, fetched_ms, body_bytes, elapsed_us, title, canonical, body_hash)
SELECT v.* FROM v;

-- name: new_edges
WITH v (source bigint, target bigint, anchor text, rel smallint) AS ROWS OF edge_row
INSERT INTO edges (source, target, anchor, rel) SELECT v.* FROM v ON CONFLICT DO NOTHING;

-- name: drop_edges
WITH v (id bigint) AS ROWS DELETE FROM edges WHERE source IN (SELECT v.id FROM v);

-- name: new_hrefs
WITH v (source bigint, place bigint, href text, reason text) AS ROWS
INSERT INTO hrefs (source, place, href, reason) SELECT v.* FROM v;

-- name: drop_hrefs
WITH v (id bigint) AS ROWS DELETE FROM hrefs WHERE source IN (SELECT v.id FROM v);

-- name: new_pointers
WITH v (source bigint, place bigint, target bigint, fragment text, decoded text) AS ROWS
INSERT INTO pointers (source, place, target, fragment, decoded) SELECT v.* FROM v;

-- name: drop_pointers
WITH v (id bigint) AS ROWS DELETE FROM pointers WHERE source IN (SELECT v.id FROM v);

-- name: new_elements
WITH v (page bigint, name text) AS ROWS
INSERT INTO elements (page, name)
SELECT {postgres: DISTINCT} v.* FROM v {sqlite: ON CONFLICT DO NOTHING};

-- name: drop_elements
WITH v (id bigint) AS ROWS DELETE FROM elements WHERE page IN (SELECT v.id FROM v);

-- name: make_sitemaps
WITH v (id bigint, depth bigint) AS ROWS
UPDATE urls SET depth = least(urls.depth, v.depth), flags = urls.flags | 16
FROM v WHERE urls.id = v.id;

-- name: read_at
WITH v (id bigint) AS ROWS
SELECT json_rows(json_array(g.id, greatest(g.fetched_ms, coalesce(n.checked_ms, 0)) / 1e3))
FROM v CROSS JOIN readings AS g ON g.id = v.id LEFT JOIN plans AS n ON n.id = v.id;

-- name: put_readings
WITH v (
  id bigint, kind text, status bigint, fetched_ms bigint, body_bytes bigint, urls bigint,
  error bigint
) AS ROWS
INSERT INTO readings (id, kind, status, fetched_ms, body_bytes, urls, error) SELECT v.* FROM v
ON CONFLICT (id) DO REPLACE;

-- An entry that names only the URL leaves an earlier one as it is. A priority that JSON could not
-- return is none.
-- name: put_hints
WITH v (id bigint, lastmod bigint, changefreq text, priority double precision) AS ROWS
INSERT INTO hints (id, lastmod, changefreq, priority)
SELECT
  v.id, v.lastmod, v.changefreq, CASE WHEN v.priority BETWEEN -1e300 AND 1e300 THEN v.priority END
FROM v
ON CONFLICT (id) DO UPDATE SET
  lastmod = excluded.lastmod, changefreq = excluded.changefreq, priority = excluded.priority
WHERE excluded.lastmod IS NOT NULL
  OR excluded.changefreq IS NOT NULL
  OR excluded.priority IS NOT NULL;

-- name: make_listed
WITH v (id bigint) AS ROWS
UPDATE urls SET flags = urls.flags | 32 FROM v WHERE urls.id = v.id AND urls.flags & 32 = 0;

-- name: put_data
WITH v (id bigint, json text) AS ROWS
INSERT INTO data (id, json) SELECT v.* FROM v
ON CONFLICT (id) DO REPLACE;

-- name: mark_data
WITH v (id bigint) AS ROWS
UPDATE urls SET flags = urls.flags | 128 FROM v WHERE urls.id = v.id AND urls.flags & 128 = 0;

-- Times that JSON could not return are refused: NULL is not allowed there.
-- name: put_plans
WITH v (
  id bigint, slot bigint, due_at double precision, interval_s double precision, checked_ms bigint,
  changed_ms bigint, visits bigint, failures bigint, etag text, last_modified text, declared text
) AS ROWS
INSERT INTO plans (
  id, slot, due_at, interval_s, checked_ms, changed_ms, visits, failures, etag, last_modified,
  declared
)
SELECT
  v.id, v.slot, CASE WHEN v.due_at BETWEEN -1e300 AND 1e300 THEN v.due_at END,
  CASE WHEN v.interval_s BETWEEN -1e300 AND 1e300 THEN v.interval_s END,
  v.checked_ms, v.changed_ms, v.visits, v.failures, v.etag, v.last_modified, v.declared
FROM v
ON CONFLICT (id) DO REPLACE;

-- name: drop_plans
WITH v (id bigint) AS ROWS DELETE FROM plans WHERE id IN (SELECT v.id FROM v);

-- name: settle_revisits
WITH v (id bigint) AS ROWS
UPDATE slots SET revisit_at = (SELECT min(n.due_at) FROM plans AS n WHERE n.slot = slots.id)
FROM v WHERE slots.id = v.id;

-- name: move_plans
UPDATE plans SET slot = (SELECT o.slot FROM origins AS o WHERE o.id = $1::bigint)
WHERE id IN (SELECT k.id FROM known AS k WHERE k.origin = $1::bigint);

-- name: changed_since
WITH v (id bigint) AS ROWS
SELECT json_rows(DISTINCT n.slot)
FROM v CROSS JOIN plans AS n ON n.id = v.id CROSS JOIN hints AS h ON h.id = v.id
WHERE h.lastmod * 1e3 > n.checked_ms AND h.lastmod <= $1::double precision
AND n.due_at > $2::double precision;

-- name: hasten_plans
WITH v (id bigint) AS ROWS
UPDATE plans SET due_at = least(plans.due_at, $1::double precision)
FROM v WHERE plans.id = v.id AND EXISTS (
  SELECT 1 FROM hints AS h
  WHERE h.id = v.id AND h.lastmod * 1e3 > plans.checked_ms AND h.lastmod <= $2::double precision
);

-- name: due_plans
WITH v (slot bigint) AS ROWS
SELECT json_rows(json_array(
  v.slot,
  (
    SELECT json_rows(json_array(
      q.id, q.url, q.depth, q.priority, 0, 0, q.flags & 1, q.flags >> 8 & 255, q.flags >> 6 & 1,
      q.flags >> 3 & 1, q.flags >> 16, q.flags >> 4 & 1, json(q.listing), q.data, q.referrer,
      json_array(
        json_array(
          0.0, q.interval_s, q.checked_at, q.changed_at, q.visits, q.failures, q.etag,
          q.last_modified, q.declared
        ),
        q.status, q.redirect_url, q.body_hash, q.looked, q.content_type
      )
    ))
    FROM (
      SELECT
        u.id, o.name || u.path AS url, u.depth, u.priority, u.flags,
        coalesce(k.status, g.status, 0) AS status,
        xo.name || x.path AS redirect_url, hex16(p.body_hash) AS body_hash, n.interval_s,
        n.checked_ms / 1e3 AS checked_at, n.changed_ms / 1e3 AS changed_at, n.visits, n.failures,
        n.etag, n.last_modified,
        coalesce(n.declared, CASE WHEN k.directives & 7 = 7 AND k.usage IS NULL THEN '' END)
          AS declared,
        CASE WHEN u.flags & 32 <> 0 THEN (
          SELECT json_array(h.lastmod, h.changefreq, h.priority) FROM hints AS h WHERE h.id = u.id
        ) END AS listing,
        coalesce(k.directives, 0) >> 3 AS looked,
        (SELECT t.text FROM texts AS t WHERE t.id = k.content_type) AS content_type,
        CASE WHEN u.flags & 128 <> 0 THEN (SELECT d.json FROM data AS d WHERE d.id = u.id) END AS data,
        CASE WHEN $1::boolean THEN (
          SELECT ro.name || r.path FROM urls AS r JOIN origins AS ro ON ro.id = r.origin
          WHERE r.id = u.referrer
        ) END AS referrer
      FROM plans AS n CROSS JOIN urls AS u ON u.id = n.id
      CROSS JOIN origins AS o ON o.id = u.origin
      LEFT JOIN pages AS p ON p.id = u.id LEFT JOIN kinds AS k ON k.id = p.kind
      LEFT JOIN readings AS g ON g.id = u.id AND u.state = 4
      LEFT JOIN redirects AS d ON d.id = u.id LEFT JOIN urls AS x ON x.id = d.target
      LEFT JOIN origins AS xo ON xo.id = x.origin
      WHERE n.slot = v.slot AND n.due_at <= $2::double precision
      AND n.id NOT IN $3::ids AND o.name NOT IN $4::names
      ORDER BY n.due_at, n.id LIMIT $5::bigint
    ) AS q
  ),
  (
    SELECT n.due_at - $6::double precision FROM plans AS n
    WHERE n.slot = v.slot AND n.due_at > $7::double precision AND n.id NOT IN $8::ids
    ORDER BY n.due_at LIMIT 1
  )
))
FROM v;

-- name: revisits_due
SELECT s.name FROM slots AS s
WHERE s.revisit_at IS NOT NULL AND s.lease IS NULL AND s.paused = 0
AND s.revisit_at <= $1::double precision
AND greatest(s.next_at, coalesce(s.backoff_until, s.next_at)) <= $1::double precision
ORDER BY s.revisit_at LIMIT $2::bigint;

-- In order of their due time, so that the search for the first that may be visited ends where that
-- alone is later than the best. Few of the rows are needed, and a server returns all that are asked
-- for: the best of the first thousand will do there.
-- name: next_revisit
SELECT s.revisit_at, greatest(s.next_at, coalesce(s.backoff_until, s.next_at)) FROM slots AS s
WHERE s.revisit_at IS NOT NULL AND s.lease IS NULL AND s.paused = 0
ORDER BY s.revisit_at {postgres: LIMIT 1000};

-- name: slots_unplanned
WITH v (id bigint) AS ROWS
SELECT json_rows(json_array(u.id, o.slot))
FROM v CROSS JOIN urls AS u ON u.id = v.id AND u.state = 1
CROSS JOIN origins AS o ON o.id = u.origin
WHERE NOT EXISTS (SELECT 1 FROM plans AS n WHERE n.id = v.id);

-- name: drop_pages
WITH v (id bigint) AS ROWS DELETE FROM pages WHERE id IN (SELECT v.id FROM v);

-- name: new_ungoverned
WITH v (origin bigint, id bigint) AS ROWS
INSERT INTO ungoverned (origin, id) SELECT v.* FROM v;

-- name: drop_ungoverned
WITH v (origin bigint, id bigint) AS ROWS
DELETE FROM ungoverned WHERE (origin, id) IN (SELECT v.origin, v.id FROM v);

-- name: new_blocks
WITH v (
  origin bigint, id bigint, verdict bigint, judged smallint, blocked_at double precision,
  withdrawn smallint
) AS ROWS
INSERT INTO blocks (origin, id, verdict, judged, blocked_at, withdrawn) SELECT v.* FROM v;

-- name: drop_blocks
WITH v (origin bigint, id bigint) AS ROWS
DELETE FROM blocks WHERE (origin, id) IN (SELECT v.origin, v.id FROM v);

-- name: new_failures
WITH v (id bigint, error bigint, attempts bigint, last_at double precision) AS ROWS
INSERT INTO failures (id, error, attempts, last_at) SELECT v.* FROM v;

-- name: drop_failures
WITH v (id bigint) AS ROWS DELETE FROM failures WHERE id IN (SELECT v.id FROM v);

-- name: put_tries
WITH v (id bigint, attempts bigint, refusals bigint, error bigint) AS ROWS
INSERT INTO tries (id, attempts, refusals, error) SELECT v.* FROM v
ON CONFLICT (id) DO REPLACE;

-- name: drop_tries
WITH v (id bigint) AS ROWS DELETE FROM tries WHERE id IN (SELECT v.id FROM v);

-- name: put_redirects
WITH v (id bigint, target bigint) AS ROWS
INSERT INTO redirects (id, target) SELECT v.* FROM v
ON CONFLICT (id) DO REPLACE;

-- name: drop_redirects
WITH v (id bigint) AS ROWS DELETE FROM redirects WHERE id IN (SELECT v.id FROM v);

-- URLs that redirect to one, with ids above another.
-- name: leading_to
SELECT json_rows(id) FROM (
  SELECT r.id FROM redirects AS r WHERE r.target = $1::bigint AND r.id > $2::bigint
  ORDER BY r.id LIMIT $3::bigint
) AS q;

-- Of the given ones, those that anything redirects to.
-- name: redirect_targets
WITH v (id bigint) AS ROWS
SELECT json_rows(v.id) FROM v
WHERE EXISTS (SELECT 1 FROM redirects AS r WHERE r.target = v.id);

-- The transaction that reads them deletes them; others meanwhile take the next ones.
-- name: some_chains
SELECT json_rows(json_array(root, after)) FROM (
  SELECT root, after FROM chains ORDER BY root LIMIT $1::bigint {postgres: FOR UPDATE SKIP LOCKED}
) AS q;

-- name: drop_chains
WITH v (id bigint) AS ROWS DELETE FROM chains WHERE root IN (SELECT v.id FROM v);

-- name: verdicts_of
WITH v (id bigint) AS ROWS
SELECT json_rows(
  json_array(u.id, b.withdrawn, w.reason, w.dialect, w.rule, w.line, w.robots_url, w.body)
)
FROM v CROSS JOIN urls AS u ON u.id = v.id
CROSS JOIN blocks AS b ON b.origin = u.origin AND b.id = u.id
CROSS JOIN verdicts AS w ON w.id = b.verdict;

-- name: new_verdict
INSERT INTO verdicts (robots_url, reason, dialect, rule, line, body)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::bigint)
{postgres: ON CONFLICT DO NOTHING} RETURNING id;

-- ---------------------------------------------------------------- counters and clocks

-- name: count_origins
WITH v (
  id bigint, queued bigint, visited bigint, blocked bigint, failed bigint, body_bytes bigint,
  judged bigint, ungoverned bigint
) AS ROWS OF origin_count_row
UPDATE origins SET
  queued = origins.queued + v.queued, visited = origins.visited + v.visited,
  blocked = origins.blocked + v.blocked, failed = origins.failed + v.failed,
  body_bytes = origins.body_bytes + v.body_bytes, judged = origins.judged + v.judged,
  ungoverned = origins.ungoverned + v.ungoverned
FROM v WHERE origins.id = v.id;

-- name: count_slots
WITH v (
  id bigint, queued bigint, visited bigint, blocked bigint, failed bigint, body_bytes bigint
) AS ROWS OF slot_count_row
UPDATE slots SET
  queued = slots.queued + v.queued, visited = slots.visited + v.visited,
  blocked = slots.blocked + v.blocked, failed = slots.failed + v.failed,
  body_bytes = slots.body_bytes + v.body_bytes
FROM v WHERE slots.id = v.id;

-- What is newly queued is due at once, so a free host can move when it has rested. Most could
-- before, and are not written.
-- name: wake_slots
WITH v (id bigint) AS ROWS
UPDATE slots SET ready_at = greatest(next_at, coalesce(backoff_until, next_at))
FROM v WHERE slots.id = v.id AND slots.lease IS NULL
AND slots.ready_at <> greatest(slots.next_at, coalesce(slots.backoff_until, slots.next_at));

-- The clocks of held hosts, and what the same transaction counts there. On a server, the stamp is a
-- new tick: whoever has seen it, or a later one, knows that these clocks were stored before.
-- name: wind_slots
WITH v (
  id bigint, next_at double precision, backoff_until double precision, ring bigint,
  ended_at double precision,
  rest_s double precision, rested_s double precision, delay_s double precision, delay_source text,
  latency_s double precision, backoff_level bigint, backoff_s double precision, denials bigint,
  connect_failures bigint, backoff_status bigint, contacts bigint,
  smallest_rest_s double precision, peak_concurrency bigint, breaches bigint, unproven bigint,
  address text, address_delay_s double precision,
  queued bigint, visited bigint, blocked bigint, failed bigint, body_bytes bigint
) AS ROWS OF clock_row
UPDATE slots SET
  next_at = v.next_at, backoff_until = v.backoff_until, ring = v.ring,
  ended_at = coalesce(v.ended_at, slots.ended_at),
  rest_s = v.rest_s, rested_s = coalesce(v.rested_s, slots.rested_s), delay_s = v.delay_s,
  delay_source = v.delay_source, latency_s = v.latency_s, backoff_level = v.backoff_level,
  backoff_s = v.backoff_s, denials = v.denials, connect_failures = v.connect_failures,
  backoff_status = v.backoff_status, contacts = v.contacts, smallest_rest_s = v.smallest_rest_s,
  peak_concurrency = v.peak_concurrency, breaches = v.breaches, unproven = v.unproven,
  address = coalesce(v.address, slots.address),
  address_delay_s = coalesce(v.address_delay_s, slots.address_delay_s),
  boot = $1::bigint, uptime_s = $2::double precision,
  stamp = {sqlite: $3::bigint}{postgres: (SELECT nextval('ticks'))},
  queued = slots.queued + v.queued, visited = slots.visited + v.visited,
  blocked = slots.blocked + v.blocked, failed = slots.failed + v.failed,
  body_bytes = slots.body_bytes + v.body_bytes
FROM v WHERE slots.id = v.id;

-- Works out anew when free hosts can move, and gives back those that are released. An earlier
-- statement of the transaction has locked the slots: this one sees what others committed before.
-- name: settle_slots
WITH v (id bigint, released boolean) AS ROWS
UPDATE slots SET
lease = CASE WHEN v.released THEN NULL ELSE slots.lease END,
clean = CASE WHEN v.released THEN 1 ELSE slots.clean END,
ready_at = greatest(
  next_at,
  coalesce(backoff_until, next_at),
  coalesce((
    SELECT min(coalesce(
      (
        SELECT CAST(0.0 AS double precision) FROM urls AS u
        WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NULL LIMIT 1
      ),
      (
        SELECT u.due_at FROM urls AS u
        WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NOT NULL ORDER BY u.due_at LIMIT 1
      )
    ))
    FROM origins AS o WHERE o.slot = slots.id AND o.pending = 1
  ), next_at)
)
FROM v WHERE slots.id = v.id;

-- name: move_origin
WITH v (id bigint, slot bigint) AS ROWS
UPDATE origins SET slot = v.slot FROM v WHERE origins.id = v.id;

-- Of origins that belonged to no host yet.
-- name: home_origins
WITH v (id bigint, slot bigint) AS ROWS
UPDATE origins SET slot = v.slot FROM v WHERE origins.id = v.id AND origins.slot IS NULL;

-- name: origin_counts
SELECT queued, visited, blocked, failed, body_bytes FROM origins WHERE id = $1::bigint;

-- ---------------------------------------------------------------- sessions and leases

-- name: new_session
UPDATE crawl SET session = session + 1 RETURNING session;

-- name: name_session
UPDATE sessions SET name = $1::text WHERE id = $2::bigint;

-- name: recheck_delay_of
UPDATE slots AS s SET next_at = s.ended_at
WHERE s.name = $3::text AND s.lease IS NULL AND s.next_at > $1::double precision
AND s.ended_at < s.next_at AND s.next_at <= s.ended_at + s.delay_s + 0.001
AND (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = s.id LIMIT $2::bigint) AS c)
  < $2::bigint
RETURNING id;

-- name: put_paused
UPDATE crawl SET paused = $1::smallint;

-- name: paused
SELECT paused FROM crawl;

-- name: end_session
UPDATE sessions SET ended_at = $1::double precision WHERE id = $2::bigint;

-- name: held
SELECT json_rows(json_array(id, name, epoch, ring))
FROM slots WHERE lease = $1::bigint AND lease IS NOT NULL;

-- Locks them; hosts that another worker is looking at are left to it.
-- name: claimable
SELECT json_rows(id) FROM (
  SELECT s.id FROM slots AS s
  WHERE s.pending = 1 AND s.lease IS NULL AND s.paused = 0 AND s.ready_at <= $1::double precision
  ORDER BY s.ready_at, s.served, s.id LIMIT $2::bigint {postgres: FOR NO KEY UPDATE SKIP LOCKED}
) AS q;

-- Of free hosts, where there are several workers, which it locks. The waits are as of the stamp.
-- Numbers are bounded, because JSON has no infinity.
-- name: leases
WITH v (id bigint) AS ROWS
SELECT json_rows(json_array(
  s.id, s.ring, s.lease, json_array(s.stamp, s.boot, s.uptime_s),
  (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = s.id LIMIT $1::bigint) AS q),
  json_array(
    s.name, s.epoch + 1,
    CASE WHEN s.clean = 1 AND (s.stamp > c.distrusted {sqlite: OR s.contacts = 0}) THEN 1 ELSE 0 END,
    json_array(
      least(s.rest_s, 1e12), CASE WHEN s.rested_s IS NOT NULL THEN least(s.rested_s, 1e12) END,
      least(s.delay_s, 1e12), s.delay_source,
      CASE WHEN s.latency_s IS NOT NULL THEN least(s.latency_s, 1e12) END, s.backoff_level,
      least(coalesce(s.backoff_s, 0.0), 1e12), s.denials, s.connect_failures, s.backoff_status,
      s.contacts, s.smallest_rest_s, s.peak_concurrency, s.breaches, s.unproven
    ),
    s.paused, CASE WHEN s.slow_s IS NOT NULL THEN least(s.slow_s, 1e12) END, s.visited, s.body_bytes
  )
))
FROM (
  SELECT s.* FROM v CROSS JOIN slots AS s ON s.id = v.id
  {postgres: WHERE s.lease IS NULL ORDER BY s.id FOR NO KEY UPDATE OF s}
) AS s CROSS JOIN crawl AS c ON c.id = 1;

-- What the hosts that were contacted at an address ask of it, the longest delay first.
-- name: address_delays
SELECT json_rows(json_array(
  q.address_delay_s, CASE WHEN q.rested_s IS NOT NULL THEN least(q.rested_s, 1e12) END, q.clean,
  json_array(q.stamp, q.boot, q.uptime_s)
))
FROM (
  SELECT * FROM slots WHERE address = $1::text AND address_delay_s IS NOT NULL
  ORDER BY address_delay_s DESC LIMIT $2::bigint
) AS q;

-- The best due URLs of some origins of the wanted slots, and in how many seconds the next one falls
-- due: a difference, because JSON gives a number 15 digits, too few for the microseconds of a date.
-- name: prefetch
WITH v (slot bigint, after bigint) AS ROWS
SELECT json_rows(json_array(
  v.slot, o.id, o.name,
  (
    SELECT json_rows(json_array(q.turn, json_array(
      q.id, o.name || q.path, q.depth, q.priority,
      CASE WHEN q.flags & 4 <> 0 THEN (SELECT t.attempts FROM tries AS t WHERE t.id = q.id) ELSE 0 END,
      CASE WHEN q.flags & 4 <> 0 THEN (SELECT t.refusals FROM tries AS t WHERE t.id = q.id) ELSE 0 END,
      q.flags & 1, q.flags >> 8 & 255, q.flags >> 6 & 1, q.flags >> 3 & 1, q.flags >> 16,
      q.flags >> 4 & 1,
      json(CASE WHEN q.flags & 32 <> 0 THEN (
        SELECT json_array(h.lastmod, h.changefreq, h.priority) FROM hints AS h WHERE h.id = q.id
      ) END),
      CASE WHEN q.flags & 128 <> 0 THEN (SELECT d.json FROM data AS d WHERE d.id = q.id) END,
      CASE WHEN $1::boolean THEN (
        SELECT ro.name || r.path FROM urls AS r JOIN origins AS ro ON ro.id = r.origin
        WHERE r.id = q.referrer
      ) END
    )))
    FROM (
      SELECT u.id, u.path, u.depth, u.priority, u.turn, u.flags, u.referrer FROM urls AS u
      WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NULL AND u.id NOT IN $2::ids
      ORDER BY u.priority DESC, u.turn, u.depth, u.id LIMIT $3::bigint
    ) AS q
  ),
  (
    SELECT u.due_at - $4::double precision FROM urls AS u
    WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NOT NULL ORDER BY u.due_at LIMIT 1
  )
))
FROM v CROSS JOIN {sqlite: origins AS o ON o.id IN}{postgres: LATERAL} (
  SELECT w.id {postgres: , w.name} FROM origins AS w
  WHERE w.slot = v.slot AND w.pending = 1 AND w.id > v.after
  ORDER BY w.id LIMIT $5::bigint
) {postgres: AS o};

-- name: next_claim
SELECT s.ready_at FROM slots AS s WHERE s.pending = 1 AND s.lease IS NULL AND s.paused = 0
ORDER BY s.ready_at LIMIT 1;

-- A free host to which no URL belongs.
-- name: unused_slot
SELECT s.id FROM slots AS s
WHERE s.name = $1::text AND s.lease IS NULL AND NOT EXISTS (
  SELECT 1 FROM origins AS o
  WHERE o.slot = s.id AND (SELECT 1 FROM known AS k WHERE k.origin = o.id LIMIT 1) = 1
);

-- name: drop_contacts
DELETE FROM contacts WHERE slot = $1::bigint;

-- name: drop_origins
DELETE FROM origins WHERE slot = $1::bigint;

-- name: drop_slot
DELETE FROM slots WHERE id = $1::bigint;

-- ---------------------------------------------------------------- robots.txt

-- Keeps the body until the transaction that is about to refer to it has ended.
-- name: body_id
SELECT id FROM bodies WHERE hash = $1::bytea {postgres: FOR KEY SHARE};

-- name: new_body
INSERT INTO bodies (hash, size, packed, domain, packed_bytes)
VALUES ($1::bytea, $2::bigint, $3::bytea, $4::text, $5::bigint)
{postgres: ON CONFLICT DO NOTHING} RETURNING id;

-- name: bytes_of_domain
SELECT CAST(coalesce(sum(packed_bytes), 0) AS bigint) FROM bodies WHERE domain = $1::text;

-- Bodies that only explain earlier verdicts, the oldest first.
-- name: unused_bodies
SELECT b.id, b.packed_bytes FROM bodies AS b
WHERE b.domain = $1::text AND NOT EXISTS (SELECT 1 FROM copies AS c WHERE c.body = b.id)
ORDER BY b.id LIMIT $2::bigint {postgres: FOR UPDATE OF b SKIP LOCKED};

-- name: drop_earlier_copy
DELETE FROM earlier_copies WHERE body = $1::bigint;

-- name: empty_body
UPDATE bodies SET hash = $1::bytea, packed = $2::bytea, domain = NULL, packed_bytes = NULL
WHERE id = $3::bigint;

-- name: bodies_of_slot
SELECT DISTINCT c.body FROM origins AS o JOIN copies AS c ON c.origin = o.id
WHERE o.slot = $1::bigint AND c.body IS NOT NULL
UNION
SELECT e.body FROM origins AS o JOIN earlier_copies AS e ON e.origin = o.id WHERE o.slot = $1::bigint;

-- name: drop_earlier_copies
DELETE FROM earlier_copies WHERE origin IN (SELECT id FROM origins WHERE slot = $1::bigint);

-- name: earlier_body
SELECT body FROM earlier_copies WHERE origin = $1::bigint;

-- Of the copy that is about to be replaced.
-- name: put_earlier_copy
INSERT INTO earlier_copies (origin, body, copy_at, replaced_at)
SELECT c.origin, c.body, c.copy_at, coalesce($2::double precision, c.copy_at, 0.0)
FROM copies AS c WHERE c.origin = $1::bigint AND c.body IS NOT NULL
ON CONFLICT (origin) DO REPLACE;

-- name: earlier_copy
SELECT b.packed, e.copy_at, e.replaced_at
FROM origins AS o JOIN earlier_copies AS e ON e.origin = o.id JOIN bodies AS b ON b.id = e.body
WHERE o.name = $1::text;

-- name: drop_copies
DELETE FROM copies WHERE origin IN (SELECT id FROM origins WHERE slot = $1::bigint);

-- name: put_copy
INSERT INTO copies (
  origin, status, body, copy_at, etag, last_modified, validators_url, fetched_at, expires_at,
  retry_at, failures, unreachable_since, gone_since, error, truncated
) VALUES (
  $1::bigint, $2::bigint, $3::bigint, $4::double precision, $5::text, $6::text, $7::text,
  $8::double precision, $9::double precision, $10::double precision, $11::bigint,
  $12::double precision, $13::double precision, $14::text, $15::smallint
)
ON CONFLICT (origin) DO REPLACE;

-- name: put_robots_at
UPDATE origins SET robots_at = $1::double precision WHERE id = $2::bigint;

-- name: failing_robots
SELECT o.name, s.name, s.id FROM copies AS c JOIN origins AS o ON o.id = c.origin
JOIN slots AS s ON s.id = o.slot
WHERE c.failures > 0
AND {sqlite: c.error LIKE $2::text || ':%'}{postgres: starts_with(c.error, $2::text || ':')}
AND ($1::text IS NULL OR o.hostname = $1::text OR s.name = $1::text);

-- What it was put off for, beyond its delay, was the robots.txt.
-- name: release_slots
WITH v (id bigint) AS ROWS
UPDATE slots SET
  next_at = least(next_at, $1::double precision + delay_s), rest_s = least(rest_s, delay_s)
FROM v WHERE slots.id = v.id;

-- name: mark_to_rejudge
UPDATE origins SET rejudge_at = coalesce(rejudge_at, $1::double precision) WHERE id = $2::bigint;

-- Of pages that were asked for before there was an answer, and committed after.
-- name: mark_late
WITH v (id bigint) AS ROWS
UPDATE origins SET rejudge_at = coalesce(rejudge_at, $1::double precision)
FROM v WHERE origins.id = v.id
AND EXISTS (SELECT 1 FROM copies AS c WHERE c.origin = origins.id AND c.failures = 0);

-- name: rejudge_due
SELECT s.name, o.name FROM origins AS o JOIN slots AS s ON s.id = o.slot
WHERE o.rejudge_at IS NOT NULL AND {sqlite: o.judged + o.ungoverned > 0}{postgres: o.judgeable}
ORDER BY o.rejudge_at LIMIT $1::bigint;

-- name: rejudge_done
UPDATE origins SET rejudge_at = NULL WHERE name = $1::text;

-- name: body_of_copy
SELECT body FROM copies WHERE origin = $1::bigint;

-- name: copy
SELECT
  c.status, b.packed, c.copy_at, c.etag, c.last_modified, c.validators_url, c.fetched_at,
  c.expires_at, c.retry_at, c.failures, c.unreachable_since, c.gone_since, c.error, c.truncated
FROM origins AS o JOIN copies AS c ON c.origin = o.id LEFT JOIN bodies AS b ON b.id = c.body
WHERE o.name = $1::text;

-- Of hosts with many origins, the copies of some, those with queued URLs first.
-- name: copies_of_slots
WITH v (slot bigint) AS ROWS
SELECT
  v.slot, o.name, l.size, c.status, b.packed, c.copy_at, c.etag, c.last_modified,
  c.validators_url, c.fetched_at, c.expires_at, c.retry_at, c.failures, c.unreachable_since,
  c.gone_since, c.error, c.truncated
FROM v CROSS JOIN {sqlite: origins AS o ON o.id IN}{postgres: LATERAL} (
  SELECT * FROM (
    SELECT w.id {postgres: , w.name} FROM origins AS w
    WHERE w.slot = v.slot AND w.pending = 1 LIMIT $1::bigint
  ) AS r
  UNION
  SELECT * FROM (
    SELECT a.id {postgres: , a.name} FROM origins AS a WHERE a.slot = v.slot LIMIT $2::bigint
  ) AS q
) {postgres: AS o}
CROSS JOIN copies AS c ON c.origin = o.id
LEFT JOIN bodies AS b ON b.id = c.body AND b.size <= $3::bigint
LEFT JOIN bodies AS l ON l.id = c.body AND l.size > $4::bigint;

-- name: ungoverned
SELECT json_rows(json_array(id, url)) FROM (
  SELECT g.id, o.name || u.path AS url FROM origins AS o JOIN ungoverned AS g ON g.origin = o.id
  JOIN urls AS u ON u.id = g.id
  WHERE o.name = $1::text ORDER BY g.id LIMIT $2::bigint
) AS q;

-- name: blocked_by_robots
SELECT json_rows(json_array(id, url)) FROM (
  SELECT b.id, o.name || u.path AS url FROM origins AS o JOIN blocks AS b ON b.origin = o.id
  JOIN urls AS u ON u.id = b.id
  WHERE o.name = $1::text AND b.id > $2::bigint AND b.judged = 1 ORDER BY b.id LIMIT $3::bigint
) AS q;

-- ---------------------------------------------------------------- by hand, and in bulk

-- name: drop_some_tries
DELETE FROM tries WHERE id IN $1::ids;

-- name: fail_some
INSERT INTO failures (id, error, attempts, last_at)
SELECT u.id, $2::bigint, $3::bigint, $4::double precision FROM urls AS u WHERE u.id IN $1::ids;

-- name: fail_some_urls
UPDATE urls SET state = 3, due_at = NULL, turn = 0, flags = flags & ~68
WHERE id IN $1::ids;

-- name: some_failed
SELECT json_rows(json_array(id, origin, slot, name)) FROM (
  SELECT f.id, u.origin, o.slot, s.name FROM failures AS f
  CROSS JOIN urls AS u ON u.id = f.id
  CROSS JOIN origins AS o ON o.id = u.origin
  CROSS JOIN slots AS s ON s.id = o.slot
  WHERE f.id > $1::bigint AND ($2::text IS NULL OR o.hostname = $2::text OR s.name = $2::text)
  AND ($4::text IS NULL OR EXISTS (
    SELECT 1 FROM texts AS t WHERE t.id = f.error
    AND {sqlite: t.text LIKE $4::text || ':%'}{postgres: starts_with(t.text, $4::text || ':')}
  ))
  ORDER BY f.id LIMIT $3::bigint {postgres: FOR NO KEY UPDATE OF f}
) AS q;

-- name: retry_some
UPDATE urls SET state = 0, turn = 0, due_at = NULL
WHERE id IN $1::ids;

-- name: drop_some_failures
DELETE FROM failures WHERE id IN $1::ids;

-- name: failed_slots
SELECT json_rows(DISTINCT o.slot) FROM origins AS o JOIN slots AS s ON s.id = o.slot
WHERE o.failed > 0 AND ($1::text IS NULL OR o.hostname = $1::text OR s.name = $1::text);

-- name: forgive_slots
WITH v (id bigint) AS ROWS
UPDATE slots SET
  next_at = CASE
    WHEN backoff_until IS NOT NULL OR connect_failures > 0
    THEN least(next_at, $1::double precision + delay_s)
    ELSE next_at
  END,
  rest_s = CASE
    WHEN backoff_until IS NOT NULL OR connect_failures > 0 THEN least(rest_s, delay_s) ELSE rest_s
  END,
  connect_failures = 0, backoff_level = 0, backoff_until = NULL, backoff_s = NULL,
  backoff_status = NULL
FROM v WHERE slots.id = v.id;

-- name: control
UPDATE slots SET
  paused = coalesce($1::smallint, paused),
  slow_s = CASE WHEN $2::boolean THEN $3::double precision ELSE slow_s END
WHERE name = $4::text
RETURNING id;

-- ---------------------------------------------------------------- the history of the crawl

-- name: put_history
WITH v (
  step_s bigint, at bigint, session bigint, observed_s double precision, queued bigint,
  counts text, durations text
) AS ROWS
INSERT INTO history (step_s, at, session, observed_s, queued, counts, durations)
SELECT v.* FROM v
ON CONFLICT (step_s, at, session) DO REPLACE;

-- name: put_marks
WITH v (
  session bigint, number bigint, at double precision, until double precision, lasting bigint,
  kind text, reason text, sentence text, actor text, via text
) AS ROWS
INSERT INTO marks (
  session, number, at, until, lasting, kind, reason, sentence, actor, via
)
SELECT v.* FROM v
ON CONFLICT (session, number) DO REPLACE;

-- Of the rows of a step, newest first: when the one begins before which so many are.
-- name: history_excess
SELECT at FROM history WHERE step_s = $1::bigint ORDER BY at DESC LIMIT 1 OFFSET $2::bigint;

-- name: history_of_hour
SELECT step_s, at, session, observed_s, queued, counts, durations
FROM history WHERE step_s = $1::bigint AND at = $2::bigint AND session = $3::bigint;

-- name: drop_history
DELETE FROM history WHERE step_s = $1::bigint AND at < $2::bigint;

-- name: marks_excess
SELECT at FROM marks ORDER BY at DESC LIMIT 1 OFFSET $1::bigint;

-- A mark that began long ago may last.
-- name: drop_marks
DELETE FROM marks WHERE at < $1::double precision AND until < $2::double precision;

-- ---------------------------------------------------------------- for readers

-- name: history
SELECT step_s, at, session, observed_s, queued, counts, durations
FROM history WHERE step_s = $1::bigint AND at > $2::bigint AND at < $3::bigint
ORDER BY at, session;

-- Those of a span, and all that were under way when it began. Of pauses, resumptions and starts, the
-- last before it: they say whether the crawl was paused.
-- name: marks
SELECT
  session, number, at, until, lasting, kind, reason, sentence, actor, via
FROM marks
WHERE at < $1::double precision AND (until >= $2::double precision OR at = (
  SELECT max(at) FROM marks
  WHERE at < $3::double precision AND kind IN ('pause', 'resume', 'start')
))
ORDER BY at, session, number;

-- name: last_sessions
SELECT id, name, began_at, ended_at FROM sessions ORDER BY id DESC LIMIT $1::bigint;

-- name: find_url
SELECT u.id, CASE WHEN u.state = 4 AND k.id > 0 THEN -1 ELSE u.state END
FROM origins AS o JOIN known AS k ON k.origin = o.id JOIN urls AS u ON u.id = abs(k.id)
WHERE o.name = $1::text AND k.fingerprint = $2::bigint;

-- name: url_about
SELECT
  s.name, o.name, ro.name || r.path, u.anchor, x.text, u.flags,
  (SELECT d.json FROM data AS d WHERE d.id = u.id)
FROM urls AS u JOIN origins AS o ON o.id = u.origin LEFT JOIN slots AS s ON s.id = o.slot
LEFT JOIN urls AS r ON r.id = u.referrer LEFT JOIN origins AS ro ON ro.id = r.origin
LEFT JOIN tries AS t ON t.id = u.id LEFT JOIN texts AS x ON x.id = t.error
WHERE u.id = $1::bigint;

-- name: contacts_of_slot
SELECT c.start_at, c.end_at, c.kind, c.status FROM contacts AS c JOIN slots AS s ON s.id = c.slot
WHERE c.slot = $2::bigint ORDER BY (c.place - s.ring % $1::bigint + $1::bigint) % $1::bigint;

-- name: ids_of_host
SELECT json_rows(id) FROM known WHERE id > 0 AND origin IN (
  SELECT id FROM origins WHERE hostname = $1::text
  UNION SELECT o.id FROM origins AS o JOIN slots AS s ON s.id = o.slot WHERE s.name = $1::text
);

-- name: body_of_block
SELECT b.packed FROM urls AS u JOIN blocks AS k ON k.origin = u.origin AND k.id = u.id
JOIN verdicts AS v ON v.id = k.verdict JOIN bodies AS b ON b.id = v.body
WHERE u.id = $1::bigint;
