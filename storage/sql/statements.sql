-- Named statements. Parameters are positional. Where one row of VALUES stands in a statement, it is
-- run for many rows at once (storage/sqlite/statements.py), and rows whose first column is NULL are padding.
-- Much is read as one JSON value: every row fetched from the store's thread costs a contest for the
-- interpreter's lock with a busy event loop, and so does every statement.

-- ---------------------------------------------------------------- names

-- name: slot_ids
WITH v(name) AS (VALUES (?))
SELECT json_group_array(json_array(s.name, s.id)) FROM v CROSS JOIN slots AS s ON s.name = v.name;

-- name: new_slots
WITH v(id, name) AS (VALUES (?, ?))
INSERT INTO slots (id, name, ready_at, next_at)
SELECT v.id, v.name, ?, ? FROM v WHERE v.id IS NOT NULL;

-- name: origin_ids
WITH v(name) AS (VALUES (?))
SELECT json_group_array(json_array(o.name, o.id, o.slot, s.name))
FROM v CROSS JOIN origins AS o ON o.name = v.name LEFT JOIN slots AS s ON s.id = o.slot;

-- name: new_origins
WITH v(id, name, hostname, slot) AS (VALUES (?, ?, ?, ?))
INSERT INTO origins (id, name, hostname, slot)
SELECT v.id, v.name, v.hostname, v.slot FROM v WHERE v.id IS NOT NULL;

-- name: text_ids
WITH v(text) AS (VALUES (?))
SELECT json_group_array(json_array(t.text, t.id)) FROM v CROSS JOIN texts AS t ON t.text = v.text;

-- name: new_texts
WITH v(id, text) AS (VALUES (?, ?))
INSERT INTO texts (id, text) SELECT v.id, v.text FROM v WHERE v.id IS NOT NULL;

-- name: kind_id
SELECT id FROM kinds
WHERE status = ? AND directives = ? AND coalesce(content_type, 0) = coalesce(?, 0)
AND coalesce(usage, 0) = coalesce(?, 0) AND coalesce(cut, 0) = coalesce(?, 0);

-- name: new_kind
INSERT INTO kinds (status, directives, content_type, usage, cut) VALUES (?, ?, ?, ?, ?)
RETURNING id;

-- ---------------------------------------------------------------- URLs

-- name: secret
SELECT bytes FROM secret;

-- name: known_ids
WITH v(n, origin, fingerprint) AS (VALUES (?, ?, ?))
SELECT json_group_array(json_array(v.n, k.id, k.depth))
FROM v CROSS JOIN known AS k ON k.origin = v.origin AND k.fingerprint = v.fingerprint;

-- name: new_urls
WITH v(id, origin, path, state, depth, priority, flags, referrer, anchor)
  AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?))
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

-- name: found_again
WITH v(id, depth, priority, flags, referrer, anchor) AS (VALUES (?, ?, ?, ?, ?, ?))
UPDATE urls SET
  state = 0, depth = v.depth, priority = v.priority, turn = 0, due_at = NULL,
  flags = (urls.flags & 162) | v.flags, referrer = v.referrer, anchor = v.anchor
FROM v WHERE urls.id = v.id;

-- name: queued_ids
WITH v(id) AS (VALUES (?))
SELECT json_group_array(u.id) FROM v CROSS JOIN urls AS u ON u.id = v.id WHERE u.state = 0;

-- name: lower_depths
WITH v(id, depth) AS (VALUES (?, ?))
UPDATE urls SET depth = min(urls.depth, v.depth) FROM v WHERE urls.id = v.id;

-- name: make_seeds
WITH v(id, depth) AS (VALUES (?, ?))
UPDATE urls SET depth = min(urls.depth, v.depth), flags = urls.flags | 1
FROM v WHERE urls.id = v.id;

-- name: new_seeds
WITH v(id) AS (VALUES (?))
INSERT OR IGNORE INTO seeds (id) SELECT v.id FROM v WHERE v.id IS NOT NULL;

-- name: session_names
SELECT json_group_array(name) FROM (SELECT name FROM sessions ORDER BY id DESC LIMIT 20);

-- name: seed_urls
SELECT json_group_array(json_array(id, url)) FROM (
  SELECT s.id, o.name || u.path AS url FROM seeds AS s
  CROSS JOIN urls AS u ON u.id = s.id CROSS JOIN origins AS o ON o.id = u.origin
  WHERE s.id > ? ORDER BY s.id LIMIT ?
);

-- name: query_counts
WITH v(origin, path) AS (VALUES (?, ?))
SELECT json_group_array(json_array(q.origin, q.path, q.count))
FROM v CROSS JOIN queries AS q ON q.origin = v.origin AND q.path = v.path;

-- name: put_query_counts
WITH v(origin, path, count) AS (VALUES (?, ?, ?))
INSERT OR REPLACE INTO queries (origin, path, count)
SELECT v.origin, v.path, v.count FROM v WHERE v.origin IS NOT NULL;

-- Most are queued: what only those of another state have is looked for there alone.
-- name: url_states
WITH v(id) AS (VALUES (?))
SELECT json_group_array(
  json_array(
    u.id, u.origin, o.slot, s.name, u.state, u.flags,
    CASE u.state WHEN 1 THEN (SELECT p.body_bytes FROM pages AS p WHERE p.id = u.id) ELSE 0 END,
    u.state = 1 AND EXISTS (SELECT 1 FROM ungoverned AS g WHERE g.origin = u.origin AND g.id = u.id),
    CASE u.state
      WHEN 2 THEN (SELECT b.judged FROM blocks AS b WHERE b.origin = u.origin AND b.id = u.id) ELSE 0
    END,
    CASE u.state
      WHEN 2 THEN (SELECT b.withdrawn FROM blocks AS b WHERE b.origin = u.origin AND b.id = u.id)
      ELSE 0
    END,
    u.state = 4 AND EXISTS (SELECT 1 FROM plans AS n WHERE n.id = u.id)
  )
)
FROM v CROSS JOIN urls AS u ON u.id = v.id
CROSS JOIN origins AS o ON o.id = u.origin
LEFT JOIN slots AS s ON s.id = o.slot;

-- name: url_names
WITH v(id) AS (VALUES (?))
SELECT json_group_array(json_array(u.id, o.name || u.path))
FROM v CROSS JOIN urls AS u ON u.id = v.id CROSS JOIN origins AS o ON o.id = u.origin;

-- name: move_urls
WITH v(id, state, turn, due_at, flags) AS (VALUES (?, ?, ?, ?, ?))
UPDATE urls SET state = v.state, turn = v.turn, due_at = v.due_at, flags = v.flags
FROM v WHERE urls.id = v.id;

-- name: new_pages
WITH v(id, kind, fetched_ms, body_bytes, elapsed_us, title, canonical, body_hash)
  AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO pages (id, kind, fetched_ms, body_bytes, elapsed_us, title, canonical, body_hash)
SELECT v.* FROM v WHERE v.id IS NOT NULL;

-- name: new_edges
WITH v(source, target, anchor, rel) AS (VALUES (?, ?, ?, ?))
INSERT OR IGNORE INTO edges SELECT v.* FROM v WHERE v.source IS NOT NULL;

-- name: drop_edges
WITH v(id) AS (VALUES (?)) DELETE FROM edges WHERE source IN (SELECT v.id FROM v);

-- name: new_hrefs
WITH v(source, place, href, reason) AS (VALUES (?, ?, ?, ?))
INSERT INTO hrefs SELECT v.* FROM v WHERE v.source IS NOT NULL;

-- name: drop_hrefs
WITH v(id) AS (VALUES (?)) DELETE FROM hrefs WHERE source IN (SELECT v.id FROM v);

-- name: new_pointers
WITH v(source, place, target, fragment, decoded) AS (VALUES (?, ?, ?, ?, ?))
INSERT INTO pointers SELECT v.* FROM v WHERE v.source IS NOT NULL;

-- name: drop_pointers
WITH v(id) AS (VALUES (?)) DELETE FROM pointers WHERE source IN (SELECT v.id FROM v);

-- name: new_elements
WITH v(page, name) AS (VALUES (?, ?))
INSERT OR IGNORE INTO elements SELECT v.* FROM v WHERE v.page IS NOT NULL;

-- name: drop_elements
WITH v(id) AS (VALUES (?)) DELETE FROM elements WHERE page IN (SELECT v.id FROM v);

-- name: make_sitemaps
WITH v(id, depth) AS (VALUES (?, ?))
UPDATE urls SET depth = min(urls.depth, v.depth), flags = urls.flags | 16
FROM v WHERE urls.id = v.id;

-- name: read_at
WITH v(id) AS (VALUES (?))
SELECT json_group_array(json_array(g.id, max(g.fetched_ms, coalesce(n.checked_ms, 0)) / 1e3))
FROM v CROSS JOIN readings AS g ON g.id = v.id LEFT JOIN plans AS n ON n.id = v.id;

-- name: put_readings
WITH v(id, kind, status, fetched_ms, body_bytes, urls, error) AS (VALUES (?, ?, ?, ?, ?, ?, ?))
INSERT OR REPLACE INTO readings SELECT v.* FROM v WHERE v.id IS NOT NULL;

-- An entry that names only the URL leaves an earlier one as it is.
-- name: put_hints
WITH v(id, lastmod, changefreq, priority) AS (VALUES (?, ?, ?, ?))
INSERT INTO hints SELECT v.* FROM v WHERE v.id IS NOT NULL
ON CONFLICT (id) DO UPDATE SET
  lastmod = excluded.lastmod, changefreq = excluded.changefreq, priority = excluded.priority
WHERE coalesce(excluded.lastmod, excluded.changefreq, excluded.priority) IS NOT NULL;

-- name: make_listed
WITH v(id) AS (VALUES (?))
UPDATE urls SET flags = urls.flags | 32 FROM v WHERE urls.id = v.id AND urls.flags & 32 = 0;

-- name: put_data
WITH v(id, json) AS (VALUES (?, ?))
INSERT OR REPLACE INTO data SELECT v.* FROM v WHERE v.id IS NOT NULL;

-- name: mark_data
WITH v(id) AS (VALUES (?))
UPDATE urls SET flags = urls.flags | 128 FROM v WHERE urls.id = v.id AND urls.flags & 128 = 0;

-- name: put_plans
WITH v(
  id, slot, due_at, interval_s, checked_ms, changed_ms, visits, failures, etag, last_modified,
  declared
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
INSERT OR REPLACE INTO plans SELECT v.* FROM v WHERE v.id IS NOT NULL;

-- name: drop_plans
WITH v(id) AS (VALUES (?)) DELETE FROM plans WHERE id IN (SELECT v.id FROM v);

-- name: settle_revisits
WITH v(id) AS (VALUES (?))
UPDATE slots SET revisit_at = (SELECT min(n.due_at) FROM plans AS n WHERE n.slot = slots.id)
FROM v WHERE slots.id = v.id;

-- name: move_plans
UPDATE plans SET slot = (SELECT o.slot FROM origins AS o WHERE o.id = ?1)
WHERE id IN (SELECT k.id FROM known AS k WHERE k.origin = ?1);

-- name: changed_since
WITH v(id) AS (VALUES (?))
SELECT json_group_array(DISTINCT n.slot)
FROM v CROSS JOIN plans AS n ON n.id = v.id CROSS JOIN hints AS h ON h.id = v.id
WHERE h.lastmod * 1000 > n.checked_ms AND h.lastmod <= ? AND n.due_at > ?;

-- name: hasten_plans
WITH v(id) AS (VALUES (?))
UPDATE plans SET due_at = min(plans.due_at, ?) FROM v, hints AS h
WHERE plans.id = v.id AND h.id = v.id AND h.lastmod * 1000 > plans.checked_ms AND h.lastmod <= ?;

-- name: due_plans
WITH v(slot) AS (VALUES (?))
SELECT json_group_array(json_array(
  v.slot,
  (
    SELECT json_group_array(json_array(
      q.id, q.url, q.depth, q.priority, q.flags, q.status, q.redirect_url, q.body_hash,
      q.interval_s, q.checked_at, q.changed_at, q.visits, q.failures, q.etag, q.last_modified,
      q.declared, json(q.listing), q.looked, q.data, q.referrer, q.content_type
    ))
    FROM (
      SELECT
        u.id, o.name || u.path AS url, u.depth, u.priority, u.flags,
        coalesce(k.status, g.status, 0) AS status,
        xo.name || x.path AS redirect_url,
        iif(p.body_hash IS NULL, NULL, printf('%016x', p.body_hash)) AS body_hash, n.interval_s,
        n.checked_ms / 1e3 AS checked_at, n.changed_ms / 1e3 AS changed_at, n.visits, n.failures,
        n.etag, n.last_modified,
        coalesce(n.declared, iif(k.directives & 7 = 7 AND k.usage IS NULL, '', NULL)) AS declared,
        iif(u.flags & 32, (
          SELECT json_array(h.lastmod, h.changefreq, h.priority) FROM hints AS h WHERE h.id = u.id
        ), NULL) AS listing,
        coalesce(k.directives, 0) >> 3 AS looked,
        (SELECT t.text FROM texts AS t WHERE t.id = k.content_type) AS content_type,
        iif(u.flags & 128, (SELECT d.json FROM data AS d WHERE d.id = u.id), NULL) AS data,
        iif(?, (
          SELECT ro.name || r.path FROM urls AS r JOIN origins AS ro ON ro.id = r.origin
          WHERE r.id = u.referrer
        ), NULL) AS referrer
      FROM plans AS n CROSS JOIN urls AS u ON u.id = n.id
      CROSS JOIN origins AS o ON o.id = u.origin
      LEFT JOIN pages AS p ON p.id = u.id LEFT JOIN kinds AS k ON k.id = p.kind
      LEFT JOIN readings AS g ON g.id = u.id AND u.state = 4
      LEFT JOIN redirects AS d ON d.id = u.id LEFT JOIN urls AS x ON x.id = d.target
      LEFT JOIN origins AS xo ON xo.id = x.origin
      WHERE n.slot = v.slot AND n.due_at <= ?
      AND n.id NOT IN (SELECT value FROM json_each(?))
      AND o.name NOT IN (SELECT value FROM json_each(?))
      ORDER BY n.due_at, n.id LIMIT ?
    ) AS q
  ),
  (
    SELECT min(n.due_at) - ? FROM plans AS n
    WHERE n.slot = v.slot AND n.due_at > ? AND n.id NOT IN (SELECT value FROM json_each(?))
  )
))
FROM v WHERE v.slot IS NOT NULL;

-- name: revisits_due
SELECT s.name FROM slots AS s
WHERE s.revisit_at IS NOT NULL AND s.lease IS NULL AND s.paused = 0 AND s.revisit_at <= ?1
AND max(s.next_at, coalesce(s.backoff_until, s.next_at)) <= ?1
ORDER BY s.revisit_at LIMIT ?2;

-- name: next_revisit
SELECT s.revisit_at, max(s.next_at, coalesce(s.backoff_until, s.next_at)) FROM slots AS s
WHERE s.revisit_at IS NOT NULL AND s.lease IS NULL AND s.paused = 0
ORDER BY s.revisit_at;

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

-- name: slots_unplanned
WITH v(id) AS (VALUES (?))
SELECT json_group_array(json_array(u.id, o.slot))
FROM v CROSS JOIN urls AS u ON u.id = v.id AND u.state = 1
CROSS JOIN origins AS o ON o.id = u.origin
WHERE NOT EXISTS (SELECT 1 FROM plans AS n WHERE n.id = v.id);

-- name: drop_pages
WITH v(id) AS (VALUES (?)) DELETE FROM pages WHERE id IN (SELECT v.id FROM v);

-- name: new_ungoverned
WITH v(origin, id) AS (VALUES (?, ?))
INSERT INTO ungoverned SELECT v.* FROM v WHERE v.origin IS NOT NULL;

-- name: drop_ungoverned
WITH v(origin, id) AS (VALUES (?, ?))
DELETE FROM ungoverned WHERE (origin, id) IN (SELECT v.origin, v.id FROM v);

-- name: new_blocks
WITH v(origin, id, verdict, judged, blocked_at, withdrawn) AS (VALUES (?, ?, ?, ?, ?, ?))
INSERT INTO blocks SELECT v.* FROM v WHERE v.origin IS NOT NULL;

-- name: drop_blocks
WITH v(origin, id) AS (VALUES (?, ?))
DELETE FROM blocks WHERE (origin, id) IN (SELECT v.origin, v.id FROM v);

-- name: new_failures
WITH v(id, error, attempts, last_at) AS (VALUES (?, ?, ?, ?))
INSERT INTO failures SELECT v.* FROM v WHERE v.id IS NOT NULL;

-- name: drop_failures
WITH v(id) AS (VALUES (?)) DELETE FROM failures WHERE id IN (SELECT v.id FROM v);

-- name: put_tries
WITH v(id, attempts, refusals, error) AS (VALUES (?, ?, ?, ?))
INSERT OR REPLACE INTO tries SELECT v.* FROM v WHERE v.id IS NOT NULL;

-- name: drop_tries
WITH v(id) AS (VALUES (?)) DELETE FROM tries WHERE id IN (SELECT v.id FROM v);

-- name: put_redirects
WITH v(id, target) AS (VALUES (?, ?))
INSERT OR REPLACE INTO redirects SELECT v.* FROM v WHERE v.id IS NOT NULL;

-- name: drop_redirects
WITH v(id) AS (VALUES (?)) DELETE FROM redirects WHERE id IN (SELECT v.id FROM v);

-- URLs that redirect to one, with ids above another.
-- name: leading_to
SELECT json_group_array(id) FROM (
  SELECT r.id FROM redirects AS r WHERE r.target = ? AND r.id > ? ORDER BY r.id LIMIT ?
);

-- Of the given ones, those that anything redirects to.
-- name: led_to
WITH v(id) AS (VALUES (?))
SELECT json_group_array(v.id) FROM v
WHERE EXISTS (SELECT 1 FROM redirects AS r WHERE r.target = v.id);

-- name: some_chains
SELECT json_group_array(json_array(root, after)) FROM (SELECT root, after FROM chains LIMIT ?);

-- name: put_chains
WITH v(root, after) AS (VALUES (?, ?))
INSERT OR REPLACE INTO chains (root, after) SELECT v.root, v.after FROM v WHERE v.root IS NOT NULL;

-- name: drop_chains
WITH v(id) AS (VALUES (?)) DELETE FROM chains WHERE root IN (SELECT v.id FROM v);

-- name: verdicts_of
WITH v(id) AS (VALUES (?))
SELECT json_group_array(
  json_array(u.id, b.withdrawn, w.reason, w.dialect, w.rule, w.line, w.robots_url, w.body)
)
FROM v CROSS JOIN urls AS u ON u.id = v.id
CROSS JOIN blocks AS b ON b.origin = u.origin AND b.id = u.id
CROSS JOIN verdicts AS w ON w.id = b.verdict;

-- name: verdict_id
SELECT id FROM verdicts
WHERE robots_url = ? AND reason = ? AND dialect = ? AND coalesce(rule, '') = coalesce(?, '')
  AND coalesce(line, 0) = coalesce(?, 0) AND coalesce(body, 0) = coalesce(?, 0);

-- name: new_verdict
INSERT INTO verdicts (robots_url, reason, dialect, rule, line, body) VALUES (?, ?, ?, ?, ?, ?)
RETURNING id;

-- name: add_to_skips
WITH v(reason, count) AS (VALUES (?, ?))
INSERT INTO skips (reason, count) SELECT v.reason, v.count FROM v WHERE v.reason IS NOT NULL
ON CONFLICT (reason) DO UPDATE SET count = count + excluded.count;

-- ---------------------------------------------------------------- counters and clocks

-- name: count_origins
WITH v(id, queued, visited, blocked, failed, body_bytes, judged, ungoverned)
  AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?))
UPDATE origins SET
  queued = origins.queued + v.queued, visited = origins.visited + v.visited,
  blocked = origins.blocked + v.blocked, failed = origins.failed + v.failed,
  body_bytes = origins.body_bytes + v.body_bytes, judged = origins.judged + v.judged,
  ungoverned = origins.ungoverned + v.ungoverned
FROM v WHERE origins.id = v.id;

-- name: count_slots
WITH v(id, queued, visited, blocked, failed, body_bytes) AS (VALUES (?, ?, ?, ?, ?, ?))
UPDATE slots SET
  queued = slots.queued + v.queued, visited = slots.visited + v.visited,
  blocked = slots.blocked + v.blocked, failed = slots.failed + v.failed,
  body_bytes = slots.body_bytes + v.body_bytes
FROM v WHERE slots.id = v.id;

-- What is newly queued is due at once, so a free host can move when it has rested. Most could
-- before, and are not written.
-- name: wake_slots
WITH v(id) AS (VALUES (?))
UPDATE slots SET ready_at = max(next_at, coalesce(backoff_until, next_at))
FROM v WHERE slots.id = v.id AND slots.lease IS NULL
AND slots.ready_at <> max(slots.next_at, coalesce(slots.backoff_until, slots.next_at));

-- The clocks of held hosts, and what the same transaction counts there.
-- name: wind_slots
WITH v(
  id, next_at, backoff_until, delay_s, delay_source, latency_s, backoff_level, denials,
  connect_failures, contacts, smallest_rest_s, peak_concurrency, breaches, ring, ended_at,
  backoff_status, rest_s, backoff_s, rested_s, unproven, queued, visited, blocked, failed, body_bytes
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
UPDATE slots SET
  next_at = v.next_at, backoff_until = v.backoff_until, delay_s = v.delay_s,
  delay_source = v.delay_source, latency_s = v.latency_s, backoff_level = v.backoff_level,
  denials = v.denials, connect_failures = v.connect_failures, contacts = v.contacts,
  smallest_rest_s = v.smallest_rest_s, peak_concurrency = v.peak_concurrency,
  breaches = v.breaches, ring = v.ring, ended_at = coalesce(v.ended_at, slots.ended_at),
  backoff_status = v.backoff_status,
  rest_s = v.rest_s, backoff_s = v.backoff_s, rested_s = coalesce(v.rested_s, slots.rested_s),
  unproven = v.unproven, boot = ?, uptime_s = ?, stamp = ?,
  queued = slots.queued + v.queued, visited = slots.visited + v.visited,
  blocked = slots.blocked + v.blocked, failed = slots.failed + v.failed,
  body_bytes = slots.body_bytes + v.body_bytes
FROM v WHERE slots.id = v.id;

-- Works out anew when free hosts can move, and gives back those that are released.
-- name: settle_slots
WITH v(id, released) AS (VALUES (?, ?))
UPDATE slots SET
lease = iif(v.released, NULL, slots.lease), clean = iif(v.released, 1, slots.clean),
ready_at = max(
  next_at,
  coalesce(backoff_until, next_at),
  coalesce((
    SELECT min(coalesce(
      (SELECT 0.0 FROM urls AS u WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NULL LIMIT 1),
      (SELECT min(u.due_at) FROM urls AS u WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NOT NULL)
    ))
    FROM origins AS o WHERE o.slot = slots.id AND o.pending = 1
  ), next_at)
)
FROM v WHERE slots.id = v.id;

-- name: put_contacts
WITH v(slot, place, start_at, end_at, kind, status) AS (VALUES (?, ?, ?, ?, ?, ?))
INSERT OR REPLACE INTO contacts SELECT v.* FROM v WHERE v.slot IS NOT NULL;

-- name: move_origin
WITH v(id, slot) AS (VALUES (?, ?))
UPDATE origins SET slot = v.slot FROM v WHERE origins.id = v.id;

-- Of origins that belonged to no host yet.
-- name: home_origins
WITH v(id, slot) AS (VALUES (?, ?))
UPDATE origins SET slot = v.slot FROM v WHERE origins.id = v.id AND origins.slot IS NULL;

-- name: origin_counts
SELECT queued, visited, blocked, failed, body_bytes FROM origins WHERE id = ?;

-- ---------------------------------------------------------------- sessions and leases

-- name: crawl
SELECT session, last_at, shift_s FROM crawl;

-- name: uptime
SELECT boot, uptime_s FROM crawl WHERE id = 1;

-- name: new_crawl
INSERT INTO crawl (id, session, last_at, shift_s) VALUES (1, 0, ?, 0.0);

-- name: new_session
UPDATE crawl SET session = session + 1 RETURNING session;

-- name: begin_session
INSERT OR REPLACE INTO sessions (id, name, began_at) VALUES (?, ?, ?);

-- name: name_session
UPDATE sessions SET name = ? WHERE id = ?;

-- Free hosts that rest from their last contact alone, and could be reckoned anew.
-- name: rouse
UPDATE slots SET next_at = ended_at
WHERE lease IS NULL AND next_at > ?1 AND ended_at < next_at
AND next_at <= ended_at + delay_s + 0.001
AND (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = slots.id LIMIT ?2)) < ?2
RETURNING id;

-- name: rouse_one
UPDATE slots SET next_at = ended_at
WHERE name = ?3 AND lease IS NULL AND next_at > ?1 AND ended_at < next_at
AND next_at <= ended_at + delay_s + 0.001
AND (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = slots.id LIMIT ?2)) < ?2
RETURNING id;

-- name: put_paused
UPDATE crawl SET paused = ?;

-- name: paused
SELECT paused FROM crawl;

-- name: end_session
UPDATE sessions SET ended_at = ? WHERE id = ?;

-- name: forget_sessions
DELETE FROM sessions WHERE id <= ?;

-- name: distrust
UPDATE crawl SET distrusted = ? WHERE id = 1;

-- name: put_time
UPDATE crawl SET last_at = ?, shift_s = ?, boot = ?, uptime_s = ?;

-- name: leased
SELECT json_group_array(id) FROM slots WHERE lease IS NOT NULL;

-- name: held
SELECT json_group_array(json_array(id, name, epoch, ring)) FROM slots WHERE lease = ?;

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

-- name: claimable
SELECT json_group_array(id) FROM (
  SELECT s.id FROM slots AS s
  WHERE s.pending = 1 AND s.lease IS NULL AND s.paused = 0 AND s.ready_at <= ?
  ORDER BY s.ready_at, s.served LIMIT ?
);

-- name: lease
WITH v(id, served) AS (VALUES (?, ?))
UPDATE slots SET lease = ?, epoch = epoch + 1, clean = 0, served = v.served
FROM v WHERE slots.id = v.id;

-- Numbers are bounded, because JSON has no infinity.
-- name: leases
WITH v(id) AS (VALUES (?))
SELECT json_group_array(json_array(
  s.id, s.name, s.epoch, s.clean AND (s.contacts = 0 OR s.stamp > c.distrusted), s.lease,
  s.stamp, s.boot, s.uptime_s, min(s.rest_s, 1e12), min(s.backoff_s, 1e12),
  min(s.delay_s, 1e12), s.delay_source, min(s.latency_s, 1e12), s.backoff_level, s.denials,
  s.connect_failures, s.contacts, s.smallest_rest_s, s.peak_concurrency, s.breaches, s.unproven, s.ring,
  min(s.rested_s, 1e12), s.paused, min(s.slow_s, 1e12), s.visited, s.body_bytes,
  (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = s.id LIMIT ?)), s.backoff_status
))
FROM v CROSS JOIN slots AS s ON s.id = v.id CROSS JOIN crawl AS c ON c.id = 1;

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

-- The best due URLs of some origins of the wanted slots, and in how many seconds the next one falls
-- due: a difference, because JSON gives a number 15 digits, too few for the microseconds of a date.
-- name: prefetch
WITH v(slot, after) AS (VALUES (?, ?))
SELECT json_group_array(json_array(
  v.slot, o.id, o.name,
  (
    SELECT json_group_array(json_array(
      q.id, q.path, q.depth, q.priority, q.turn, q.flags,
      iif(q.flags & 4, (SELECT t.attempts FROM tries AS t WHERE t.id = q.id), 0),
      iif(q.flags & 4, (SELECT t.refusals FROM tries AS t WHERE t.id = q.id), 0),
      json(iif(q.flags & 32, (
        SELECT json_array(h.lastmod, h.changefreq, h.priority) FROM hints AS h WHERE h.id = q.id
      ), NULL)),
      iif(q.flags & 128, (SELECT d.json FROM data AS d WHERE d.id = q.id), NULL),
      iif(?, (
        SELECT ro.name || r.path FROM urls AS r JOIN origins AS ro ON ro.id = r.origin
        WHERE r.id = q.referrer
      ), NULL)
    ))
    FROM (
      SELECT u.id, u.path, u.depth, u.priority, u.turn, u.flags, u.referrer FROM urls AS u
      WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NULL
      AND u.id NOT IN (SELECT value FROM json_each(?))
      ORDER BY u.priority DESC, u.turn, u.depth, u.id LIMIT ?
    ) AS q
  ),
  (
    SELECT min(u.due_at) - ? FROM urls AS u
    WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NOT NULL
  )
))
FROM v CROSS JOIN origins AS o ON o.id IN (
  SELECT w.id FROM origins AS w WHERE w.slot = v.slot AND w.pending = 1 AND w.id > v.after
  ORDER BY w.id LIMIT ?
);

-- name: next_claim
SELECT min(ready_at) FROM slots WHERE pending = 1 AND lease IS NULL AND paused = 0;

-- A free host to which no URL belongs.
-- name: unused_slot
SELECT s.id FROM slots AS s
WHERE s.name = ? AND s.lease IS NULL AND NOT EXISTS (
  SELECT 1 FROM origins AS o JOIN known AS k ON k.origin = o.id WHERE o.slot = s.id
);

-- name: drop_contacts
DELETE FROM contacts WHERE slot = ?;

-- name: drop_origins
DELETE FROM origins WHERE slot = ?;

-- name: drop_slot
DELETE FROM slots WHERE id = ?;

-- ---------------------------------------------------------------- robots.txt

-- name: body_id
SELECT id FROM bodies WHERE hash = ?;

-- name: new_body
INSERT INTO bodies (hash, size, packed, domain, packed_bytes) VALUES (?, ?, ?, ?, ?) RETURNING id;

-- name: bytes_of_domain
SELECT coalesce(sum(packed_bytes), 0) FROM bodies WHERE domain = ?;

-- Bodies that only explain earlier verdicts, the oldest first.
-- name: unused_bodies
SELECT b.id, b.packed_bytes FROM bodies AS b
WHERE b.domain = ? AND NOT EXISTS (SELECT 1 FROM copies AS c WHERE c.body = b.id)
ORDER BY b.id LIMIT ?;

-- name: drop_earlier_copy
DELETE FROM earlier_copies WHERE body = ?;

-- name: empty_body
UPDATE bodies SET hash = ?, packed = ?, domain = NULL, packed_bytes = NULL WHERE id = ?;

-- Bodies that no copy and no verdict needs any longer.
-- name: drop_bodies
WITH v(id) AS (VALUES (?))
DELETE FROM bodies WHERE id IN (SELECT v.id FROM v)
AND NOT EXISTS (SELECT 1 FROM copies AS c WHERE c.body = bodies.id)
AND NOT EXISTS (SELECT 1 FROM earlier_copies AS e WHERE e.body = bodies.id)
AND NOT EXISTS (SELECT 1 FROM verdicts AS d WHERE d.body = bodies.id);

-- name: bodies_of_slot
SELECT DISTINCT c.body FROM origins AS o JOIN copies AS c ON c.origin = o.id
WHERE o.slot = ?1 AND c.body IS NOT NULL
UNION
SELECT e.body FROM origins AS o JOIN earlier_copies AS e ON e.origin = o.id WHERE o.slot = ?1;

-- name: drop_earlier_copies
DELETE FROM earlier_copies WHERE origin IN (SELECT id FROM origins WHERE slot = ?);

-- name: earlier_body
SELECT body FROM earlier_copies WHERE origin = ?;

-- Of the copy that is about to be replaced.
-- name: put_earlier_copy
INSERT OR REPLACE INTO earlier_copies (origin, body, copy_at, replaced_at)
SELECT c.origin, c.body, c.copy_at, coalesce(?2, c.copy_at, 0.0) FROM copies AS c
WHERE c.origin = ?1 AND c.body IS NOT NULL;

-- name: earlier_copy
SELECT b.packed, e.copy_at, e.replaced_at
FROM origins AS o JOIN earlier_copies AS e ON e.origin = o.id JOIN bodies AS b ON b.id = e.body
WHERE o.name = ?;

-- name: drop_copies
DELETE FROM copies WHERE origin IN (SELECT id FROM origins WHERE slot = ?);

-- name: put_copy
INSERT OR REPLACE INTO copies (
  origin, body, status, copy_at, etag, last_modified, validators_url, fetched_at, expires_at,
  retry_at, failures, unreachable_since, gone_since, error, truncated
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_robots_at
UPDATE origins SET robots_at = ? WHERE id = ?;

-- name: failing_robots
SELECT o.name, s.name, s.id FROM copies AS c JOIN origins AS o ON o.id = c.origin
JOIN slots AS s ON s.id = o.slot
WHERE c.failures > 0 AND c.error LIKE ?2 || ':%'
AND (?1 IS NULL OR o.hostname = ?1 OR s.name = ?1);

-- What it was put off for, beyond its delay, was the robots.txt.
-- name: release_slots
WITH v(id) AS (VALUES (?))
UPDATE slots SET next_at = min(next_at, ? + delay_s), rest_s = min(rest_s, delay_s) FROM v WHERE slots.id = v.id;

-- name: mark_to_rejudge
UPDATE origins SET rejudge_at = coalesce(rejudge_at, ?) WHERE id = ?;

-- Of pages that were asked for before there was an answer, and committed after.
-- name: mark_late
WITH v(id) AS (VALUES (?))
UPDATE origins SET rejudge_at = coalesce(rejudge_at, ?)
WHERE id IN (SELECT v.id FROM v)
AND EXISTS (SELECT 1 FROM copies AS c WHERE c.origin = origins.id AND c.failures = 0);

-- name: mark_all_to_rejudge
UPDATE origins SET rejudge_at = ? WHERE rejudge_at IS NULL AND judged + ungoverned > 0;

-- name: rejudge_due
SELECT s.name, o.name FROM origins AS o JOIN slots AS s ON s.id = o.slot
WHERE o.rejudge_at IS NOT NULL AND o.judged + o.ungoverned > 0
ORDER BY o.rejudge_at LIMIT ?;

-- name: rejudge_done
UPDATE origins SET rejudge_at = NULL WHERE name = ?;

-- name: body_of_copy
SELECT body FROM copies WHERE origin = ?;

-- name: copy
SELECT
  o.name, b.packed, c.status, c.copy_at, c.etag, c.last_modified, c.validators_url, c.fetched_at,
  c.expires_at, c.retry_at, c.failures, c.unreachable_since, c.gone_since, c.error, c.truncated
FROM origins AS o JOIN copies AS c ON c.origin = o.id LEFT JOIN bodies AS b ON b.id = c.body
WHERE o.name = ?;

-- Of hosts with many origins, the copies of some, those with queued URLs first.
-- name: copies_of_slots
WITH v(slot) AS (VALUES (?))
SELECT
  v.slot, l.size, o.name, b.packed, c.status, c.copy_at, c.etag, c.last_modified,
  c.validators_url, c.fetched_at, c.expires_at, c.retry_at, c.failures, c.unreachable_since,
  c.gone_since, c.error, c.truncated
FROM v CROSS JOIN origins AS o ON o.id IN (
  SELECT * FROM (SELECT w.id FROM origins AS w WHERE w.slot = v.slot AND w.pending = 1 LIMIT ?)
  UNION
  SELECT * FROM (SELECT a.id FROM origins AS a WHERE a.slot = v.slot LIMIT ?)
)
CROSS JOIN copies AS c ON c.origin = o.id
LEFT JOIN bodies AS b ON b.id = c.body AND b.size <= ?
LEFT JOIN bodies AS l ON l.id = c.body AND l.size > ?;

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

-- name: ungoverned
SELECT json_group_array(json_array(id, url)) FROM (
SELECT g.id, o.name || u.path AS url FROM origins AS o JOIN ungoverned AS g ON g.origin = o.id
JOIN urls AS u ON u.id = g.id
WHERE o.name = ? ORDER BY g.id LIMIT ?
);

-- name: blocked_by_robots
SELECT json_group_array(json_array(id, url)) FROM (
SELECT b.id, o.name || u.path AS url FROM origins AS o JOIN blocks AS b ON b.origin = o.id
JOIN urls AS u ON u.id = b.id
WHERE o.name = ? AND b.id > ? AND b.judged = 1 ORDER BY b.id LIMIT ?
);

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

-- name: drop_some_tries
DELETE FROM tries WHERE id IN (SELECT value FROM json_each(?));

-- name: fail_some
INSERT INTO failures (id, error, attempts, last_at)
SELECT value, ?2, ?3, ?4 FROM json_each(?1);

-- name: fail_some_urls
UPDATE urls SET state = 3, due_at = NULL, turn = 0, flags = flags & ~68
WHERE id IN (SELECT value FROM json_each(?));

-- name: suspect
UPDATE urls SET flags = flags | 64,
  due_at = iif(state = 0 AND NOT flags & 16, max(coalesce(due_at, 0), ?2), due_at)
WHERE id IN (SELECT value FROM json_each(?1));

-- name: some_failed
SELECT json_group_array(json_array(id, origin, slot, name)) FROM (
  SELECT f.id, u.origin, o.slot, s.name FROM failures AS f
  CROSS JOIN urls AS u ON u.id = f.id
  CROSS JOIN origins AS o ON o.id = u.origin
  CROSS JOIN slots AS s ON s.id = o.slot
  WHERE f.id > ?1 AND (?2 IS NULL OR o.hostname = ?2 OR s.name = ?2)
  AND (?4 IS NULL OR EXISTS (
    SELECT 1 FROM texts AS t WHERE t.id = f.error AND t.text LIKE ?4 || ':%'
  ))
  ORDER BY f.id LIMIT ?3
);

-- name: retry_some
UPDATE urls SET state = 0, turn = 0, due_at = NULL
WHERE id IN (SELECT value FROM json_each(?));

-- name: drop_some_failures
DELETE FROM failures WHERE id IN (SELECT value FROM json_each(?));

-- name: failed_slots
SELECT json_group_array(DISTINCT o.slot) FROM origins AS o JOIN slots AS s ON s.id = o.slot
WHERE o.failed > 0 AND (?1 IS NULL OR o.hostname = ?1 OR s.name = ?1);

-- name: forgive_slots
WITH v(id) AS (VALUES (?))
UPDATE slots SET
  next_at = iif(backoff_until IS NOT NULL OR connect_failures > 0, min(next_at, ? + delay_s), next_at),
  rest_s = iif(backoff_until IS NOT NULL OR connect_failures > 0, min(rest_s, delay_s), rest_s),
  connect_failures = 0, backoff_level = 0, backoff_until = NULL, backoff_s = NULL,
  backoff_status = NULL
FROM v WHERE slots.id = v.id;

-- name: control
UPDATE slots SET paused = coalesce(?, paused), slow_s = iif(?, ?, slow_s) WHERE name = ?
RETURNING id;

-- ---------------------------------------------------------------- the history of the crawl

-- name: put_history
WITH v(
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO history (
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness
)
SELECT
  v.step_s, v.at, v.session, v.observed_s, v.success, v.redirects, v.client_errors, v.server_errors,
  v.unanswered, v.failed, v.given_up, v.queued, v.latency, v.lateness
FROM v WHERE v.step_s IS NOT NULL
ON CONFLICT (step_s, at, session) DO UPDATE SET
  observed_s = excluded.observed_s, success = excluded.success, redirects = excluded.redirects,
  client_errors = excluded.client_errors, server_errors = excluded.server_errors,
  unanswered = excluded.unanswered, failed = excluded.failed, given_up = excluded.given_up,
  queued = excluded.queued, latency = excluded.latency, lateness = excluded.lateness;

-- name: put_marks
WITH v(
  session, number, at, until, lasting, kind, reason, sentence, actor, via
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO marks (
  session, number, at, until, lasting, kind, reason, sentence, actor, via
)
SELECT
  v.session, v.number, v.at, v.until, v.lasting, v.kind, v.reason, v.sentence, v.actor, v.via
FROM v WHERE v.session IS NOT NULL
ON CONFLICT (session, number) DO UPDATE SET
  at = excluded.at, until = excluded.until, lasting = excluded.lasting, kind = excluded.kind,
  reason = excluded.reason, sentence = excluded.sentence, actor = excluded.actor, via = excluded.via;

-- name: fold_history
DELETE FROM history WHERE (step_s, at, session) IN (
  SELECT step_s, at, session FROM history WHERE step_s = ? AND at < ? ORDER BY at, session LIMIT ?
)
RETURNING
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness;

-- The rows of steps that several sessions have counted.
-- name: merge_history
DELETE FROM history WHERE step_s = ?1 AND at IN (
  SELECT at FROM history WHERE step_s = ?1 AND at < ?2 GROUP BY at HAVING count(*) > 1 LIMIT ?3
)
RETURNING
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness;

-- Of the rows of a step, newest first: when the one begins before which so many are.
-- name: history_excess
SELECT at FROM history WHERE step_s = ? ORDER BY at DESC LIMIT 1 OFFSET ?;

-- name: history_of_hour
SELECT
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness
FROM history WHERE step_s = ? AND at = ? AND session = ?;

-- name: drop_history
DELETE FROM history WHERE step_s = ? AND at < ?;

-- name: marks_excess
SELECT at FROM marks ORDER BY at DESC LIMIT 1 OFFSET ?;

-- A mark that began long ago may last.
-- name: drop_marks
DELETE FROM marks WHERE at < ? AND until < ?;

-- ---------------------------------------------------------------- for readers

-- name: history
SELECT
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness
FROM history WHERE step_s = ? AND at > ? AND at < ?
ORDER BY at, session;

-- Those of a span, and all that were under way when it began. Of pauses, resumptions and starts, the
-- last before it: they say whether the crawl was paused.
-- name: marks
SELECT
  session, number, at, until, lasting, kind, reason, sentence, actor, via
FROM marks
WHERE at < ? AND (until >= ? OR at = (
  SELECT max(at) FROM marks
  WHERE at < ? AND kind IN ('pause', 'resume', 'start')
))
ORDER BY at, session, number;

-- Ids of URLs have no gaps, so the largest is their number.
-- name: sizes
SELECT
  (SELECT coalesce(max(id), 0) FROM urls), (SELECT count(*) FROM origins),
  (SELECT count(*) FROM copies);

-- name: last_sessions
SELECT id, name, began_at, ended_at FROM sessions ORDER BY id DESC LIMIT ?;

-- name: find_url
SELECT u.id, iif(u.state = 4 AND k.id > 0, -1, u.state)
FROM origins AS o JOIN known AS k ON k.origin = o.id JOIN urls AS u ON u.id = abs(k.id)
WHERE o.name = ? AND k.fingerprint = ?;

-- name: url_about
SELECT
  s.name, o.name, ro.name || r.path, u.anchor, x.text, u.flags,
  (SELECT d.json FROM data AS d WHERE d.id = u.id)
FROM urls AS u JOIN origins AS o ON o.id = u.origin LEFT JOIN slots AS s ON s.id = o.slot
LEFT JOIN urls AS r ON r.id = u.referrer LEFT JOIN origins AS ro ON ro.id = r.origin
LEFT JOIN tries AS t ON t.id = u.id LEFT JOIN texts AS x ON x.id = t.error
WHERE u.id = ?;

-- name: contacts_of_slot
SELECT c.start_at, c.end_at, c.kind, c.status FROM contacts AS c JOIN slots AS s ON s.id = c.slot
WHERE c.slot = ?2 ORDER BY (c.place - s.ring % ?1 + ?1) % ?1;

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

-- name: ids_of_host
SELECT json_group_array(id) FROM known WHERE id > 0 AND origin IN (
  SELECT id FROM origins WHERE hostname = ?1
  UNION SELECT o.id FROM origins AS o JOIN slots AS s ON s.id = o.slot WHERE s.name = ?1
);

-- name: body_of_block
SELECT b.packed FROM urls AS u JOIN blocks AS k ON k.origin = u.origin AND k.id = u.id
JOIN verdicts AS v ON v.id = k.verdict JOIN bodies AS b ON b.id = v.body
WHERE u.id = ?;
