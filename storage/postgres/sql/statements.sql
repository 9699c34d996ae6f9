-- Named statements: those of storage/sql/statements.sql, for PostgreSQL, and those that only a store
-- with several workers needs. The isolation level is READ COMMITTED: every statement sees what was
-- committed before it began, which many of them rely on.
--
-- Parameters. Statements for many rows take the rows first, as one array per column, and then the
-- scalars. What one transaction writes many rows of is passed in one statement, however many there
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
-- - `new_known` returns the ids that were inserted. Insert only their rows with `new_urls`, and look
--   up the others again with `known_ids`.
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

-- name: slot_ids
SELECT coalesce(json_agg(json_build_array(s.name, s.id)), '[]')::text
FROM unnest($1::text[]) AS v (name) JOIN slots AS s ON s.name = v.name;

-- name: new_slots
INSERT INTO slots (id, name, ready_at, next_at)
SELECT v.id, v.name, $3::double precision, $4::double precision
FROM unnest($1::bigint[], $2::text[]) AS v (id, name) ORDER BY v.name COLLATE "C"
ON CONFLICT DO NOTHING;

-- name: next_slots
SELECT json_agg(nextval('slot_numbers'))::text FROM generate_series(1, $1::bigint);

-- name: origin_ids
SELECT coalesce(json_agg(json_build_array(o.name, o.id, o.slot, s.name)), '[]')::text
FROM unnest($1::text[]) AS v (name) JOIN origins AS o ON o.name = v.name
LEFT JOIN slots AS s ON s.id = o.slot;

-- name: new_origins
INSERT INTO origins (id, name, hostname, slot)
SELECT v.id, v.name, v.hostname, v.slot
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS v (id, name, hostname, slot)
ORDER BY v.name COLLATE "C"
ON CONFLICT DO NOTHING;

-- name: next_origins
SELECT json_agg(nextval('origin_numbers'))::text FROM generate_series(1, $1::bigint);

-- name: text_ids
SELECT coalesce(json_agg(json_build_array(t.text, t.id)), '[]')::text
FROM unnest($1::text[]) AS v (text) JOIN texts AS t ON t.text = v.text;

-- name: new_texts
INSERT INTO texts (id, text)
SELECT v.id, v.text FROM unnest($1::bigint[], $2::text[]) AS v (id, text)
ORDER BY v.text COLLATE "C"
ON CONFLICT DO NOTHING;

-- name: next_texts
SELECT json_agg(nextval('text_numbers'))::text FROM generate_series(1, $1::bigint);

-- name: kind_id
SELECT id FROM kinds
WHERE status = $1::bigint AND directives = $2::bigint
AND coalesce(content_type, 0) = coalesce($3::bigint, 0)
AND coalesce(usage, 0) = coalesce($4::bigint, 0) AND coalesce(cut, 0) = coalesce($5::bigint, 0);

-- name: new_kind
INSERT INTO kinds (status, directives, content_type, usage, cut)
VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint)
ON CONFLICT DO NOTHING RETURNING id;

-- ---------------------------------------------------------------- URLs

-- name: secret
SELECT bytes FROM secret;

-- name: known_ids
SELECT coalesce(json_agg(json_build_array(v.n, k.id, k.depth)), '[]')::text
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (n, origin, fingerprint)
JOIN known AS k ON k.origin = v.origin AND k.fingerprint = v.fingerprint;

-- Returns the ids that were inserted, as they were given (negative ones are out of view).
-- name: new_known
WITH done AS (
  INSERT INTO known (origin, fingerprint, id, depth)
  SELECT v.origin, v.fingerprint, v.id, v.depth
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
    AS v (origin, fingerprint, id, depth)
  ORDER BY v.origin, v.fingerprint
  ON CONFLICT DO NOTHING RETURNING id
)
SELECT coalesce(json_agg(id), '[]')::text FROM done;

-- name: new_urls
INSERT INTO urls (id, origin, path, state, depth, priority, turn, flags, referrer, anchor)
SELECT v.id, v.origin, v.path, v.state, v.depth, v.priority, 0, v.flags, v.referrer, v.anchor
FROM unnest(
  $1::bigint[], $2::bigint[], $3::text[], $4::smallint[], $5::bigint[], $6::double precision[],
  $7::bigint[], $8::bigint[], $9::text[]
) AS v (id, origin, path, state, depth, priority, flags, referrer, anchor);

-- name: next_urls
SELECT json_agg(nextval('url_numbers'))::text FROM generate_series(1, $1::bigint);

-- name: known_again
WITH l AS (
  SELECT v.* FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
    AS v (origin, fingerprint, id, depth)
  JOIN known AS k ON k.origin = v.origin AND k.fingerprint = v.fingerprint
  ORDER BY k.origin, k.fingerprint FOR NO KEY UPDATE OF k
)
UPDATE known SET id = l.id, depth = l.depth FROM l
WHERE known.origin = l.origin AND known.fingerprint = l.fingerprint;

-- name: found_again
WITH l AS (
  SELECT v.* FROM unnest(
    $1::bigint[], $2::bigint[], $3::double precision[], $4::bigint[], $5::bigint[], $6::text[]
  ) AS v (id, depth, priority, flags, referrer, anchor)
  JOIN urls AS u ON u.id = v.id ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET
  state = 0, depth = l.depth, priority = l.priority, turn = 0, due_at = NULL,
  flags = (urls.flags & 162) | l.flags, referrer = l.referrer, anchor = l.anchor
FROM l WHERE urls.id = l.id;

-- name: lock_urls
SELECT count(*) FROM (
  SELECT u.id FROM unnest($1::bigint[]) AS v (id) JOIN urls AS u ON u.id = v.id
  ORDER BY u.id FOR NO KEY UPDATE OF u
) AS l;

-- name: queued_ids
SELECT coalesce(json_agg(u.id), '[]')::text
FROM unnest($1::bigint[]) AS v (id) JOIN urls AS u ON u.id = v.id WHERE u.state = 0;

-- name: lower_depths
WITH l AS (
  SELECT v.* FROM unnest($1::bigint[], $2::bigint[]) AS v (id, depth)
  JOIN urls AS u ON u.id = v.id WHERE v.depth < u.depth ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET depth = least(urls.depth, l.depth) FROM l WHERE urls.id = l.id;

-- name: make_seeds
WITH l AS (
  SELECT v.* FROM unnest($1::bigint[], $2::bigint[]) AS v (id, depth)
  JOIN urls AS u ON u.id = v.id ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET depth = least(urls.depth, l.depth), flags = urls.flags | 1
FROM l WHERE urls.id = l.id;

-- name: new_seeds
INSERT INTO seeds (id)
SELECT v.id FROM unnest($1::bigint[]) AS v (id) ORDER BY v.id ON CONFLICT DO NOTHING;

-- name: session_names
SELECT coalesce(json_agg(name), '[]')::text FROM (
  SELECT name FROM sessions ORDER BY id DESC LIMIT 20
) AS s;

-- name: seed_urls
SELECT coalesce(json_agg(json_build_array(id, url)), '[]')::text FROM (
  SELECT s.id, q.url FROM seeds AS s CROSS JOIN LATERAL (
    SELECT o.name || u.path AS url FROM urls AS u JOIN origins AS o ON o.id = u.origin
    WHERE u.id = s.id OFFSET 0
  ) AS q
  WHERE s.id > $1::bigint ORDER BY s.id LIMIT $2::bigint
) AS q;

-- name: query_counts
SELECT coalesce(json_agg(json_build_array(q.origin, q.path, q.count)), '[]')::text
FROM unnest($1::bigint[], $2::bigint[]) AS v (origin, path)
JOIN queries AS q ON q.origin = v.origin AND q.path = v.path;

-- Two workers may have counted from the same number: what they found meanwhile may exceed the limit.
-- name: put_query_counts
INSERT INTO queries (origin, path, count)
SELECT v.origin, v.path, v.count
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (origin, path, count)
ORDER BY v.origin, v.path
ON CONFLICT (origin, path) DO UPDATE SET count = greatest(queries.count, excluded.count);

-- Most are queued: what only those of another state have is looked for there alone.
-- name: url_states
SELECT coalesce(json_agg(
  json_build_array(
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
  ) ORDER BY v.n
), '[]')::text
FROM unnest($1::bigint[]) WITH ORDINALITY AS v (id, n) JOIN urls AS u ON u.id = v.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN slots AS s ON s.id = o.slot;

-- name: url_names
SELECT coalesce(json_agg(json_build_array(u.id, o.name || u.path)), '[]')::text
FROM unnest($1::bigint[]) AS v (id) JOIN urls AS u ON u.id = v.id
JOIN origins AS o ON o.id = u.origin;

-- name: move_urls
WITH l AS (
  SELECT v.* FROM unnest(
    $1::bigint[], $2::smallint[], $3::bigint[], $4::double precision[], $5::bigint[]
  ) AS v (id, state, turn, due_at, flags)
  JOIN urls AS u ON u.id = v.id ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET state = l.state, turn = l.turn, due_at = l.due_at, flags = l.flags
FROM l WHERE urls.id = l.id;

-- name: new_pages
INSERT INTO pages (id, kind, fetched_ms, body_bytes, elapsed_us, title, canonical, body_hash)
SELECT * FROM unnest(
  $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[],
  $8::bigint[]
);

-- name: new_edges
INSERT INTO edges (source, target, anchor, rel)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::smallint[])
ON CONFLICT DO NOTHING;

-- name: drop_edges
DELETE FROM edges WHERE source = ANY ($1::bigint[]);

-- name: new_hrefs
INSERT INTO hrefs (source, place, href, reason)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]);

-- name: drop_hrefs
DELETE FROM hrefs WHERE source = ANY ($1::bigint[]);

-- name: new_pointers
INSERT INTO pointers (source, place, target, fragment, decoded)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[]);

-- name: drop_pointers
DELETE FROM pointers WHERE source = ANY ($1::bigint[]);

-- name: new_elements
INSERT INTO elements (page, name) SELECT DISTINCT * FROM unnest($1::bigint[], $2::text[]);

-- name: drop_elements
DELETE FROM elements WHERE page = ANY ($1::bigint[]);

-- name: make_sitemaps
WITH l AS (
  SELECT v.* FROM unnest($1::bigint[], $2::bigint[]) AS v (id, depth)
  JOIN urls AS u ON u.id = v.id ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET depth = least(urls.depth, l.depth), flags = urls.flags | 16
FROM l WHERE urls.id = l.id;

-- name: read_at
SELECT coalesce(json_agg(json_build_array(
  g.id, greatest(g.fetched_ms, n.checked_ms) / 1e3::double precision
)), '[]')::text
FROM unnest($1::bigint[]) AS v (id) JOIN readings AS g ON g.id = v.id
LEFT JOIN plans AS n ON n.id = v.id;

-- name: put_readings
INSERT INTO readings (id, kind, status, fetched_ms, body_bytes, urls, error)
SELECT * FROM unnest(
  $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[]
)
ON CONFLICT (id) DO UPDATE SET
  kind = excluded.kind, status = excluded.status, fetched_ms = excluded.fetched_ms,
  body_bytes = excluded.body_bytes, urls = excluded.urls, error = excluded.error;

-- A priority that JSON could not return is none.
-- An entry that names only the URL leaves an earlier one as it is.
-- name: put_hints
INSERT INTO hints (id, lastmod, changefreq, priority)
SELECT
  v.id, v.lastmod, v.changefreq, CASE WHEN v.priority BETWEEN -1e300 AND 1e300 THEN v.priority END
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::double precision[])
  AS v (id, lastmod, changefreq, priority)
ORDER BY v.id
ON CONFLICT (id) DO UPDATE SET
  lastmod = excluded.lastmod, changefreq = excluded.changefreq, priority = excluded.priority
WHERE excluded.lastmod IS NOT NULL
  OR excluded.changefreq IS NOT NULL
  OR excluded.priority IS NOT NULL;

-- name: make_listed
WITH l AS (
  SELECT u.id FROM unnest($1::bigint[]) AS v (id) JOIN urls AS u ON u.id = v.id
  WHERE u.flags & 32 = 0 ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET flags = urls.flags | 32 FROM l WHERE urls.id = l.id;

-- Times that JSON could not return are refused: NULL is not allowed there.
-- name: put_data
INSERT INTO data (id, json)
SELECT v.id, v.json FROM unnest($1::bigint[], $2::text[]) AS v (id, json)
ORDER BY v.id
ON CONFLICT (id) DO UPDATE SET json = excluded.json;

-- name: mark_data
WITH l AS (
  SELECT u.id FROM unnest($1::bigint[]) AS v (id) JOIN urls AS u ON u.id = v.id
  WHERE u.flags & 128 = 0 ORDER BY u.id FOR NO KEY UPDATE OF u
)
UPDATE urls SET flags = urls.flags | 128 FROM l WHERE urls.id = l.id;

-- name: put_plans
INSERT INTO plans (
  id, slot, due_at, interval_s, checked_ms, changed_ms, visits, failures, etag, last_modified,
  declared
)
SELECT
  v.id, v.slot, CASE WHEN v.due_at BETWEEN -1e300 AND 1e300 THEN v.due_at END,
  CASE WHEN v.interval_s BETWEEN -1e300 AND 1e300 THEN v.interval_s END,
  v.checked_ms, v.changed_ms, v.visits, v.failures, v.etag, v.last_modified,
  v.declared
FROM unnest(
  $1::bigint[], $2::bigint[], $3::double precision[], $4::double precision[], $5::bigint[],
  $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[]
) AS v (
  id, slot, due_at, interval_s, checked_ms, changed_ms, visits, failures, etag, last_modified,
  declared
)
ORDER BY v.id
ON CONFLICT (id) DO UPDATE SET
  slot = excluded.slot, due_at = excluded.due_at, interval_s = excluded.interval_s,
  checked_ms = excluded.checked_ms, changed_ms = excluded.changed_ms, visits = excluded.visits,
  failures = excluded.failures, etag = excluded.etag, last_modified = excluded.last_modified,
  declared = excluded.declared;

-- name: drop_plans
DELETE FROM plans WHERE id = ANY ($1::bigint[]);

-- name: settle_revisits
WITH l AS (
  SELECT s.id FROM unnest($1::bigint[]) AS v (id) JOIN slots AS s ON s.id = v.id
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET revisit_at = (SELECT min(n.due_at) FROM plans AS n WHERE n.slot = slots.id)
FROM l WHERE slots.id = l.id;

-- name: move_plans
UPDATE plans SET slot = (SELECT o.slot FROM origins AS o WHERE o.id = $1::bigint)
WHERE id IN (SELECT k.id FROM known AS k WHERE k.origin = $1::bigint);

-- name: changed_since
SELECT coalesce(json_agg(DISTINCT n.slot), '[]')::text
FROM unnest($1::bigint[]) AS v (id) JOIN plans AS n ON n.id = v.id JOIN hints AS h ON h.id = v.id
WHERE h.lastmod * 1e3::double precision > n.checked_ms AND h.lastmod <= $2::double precision
AND n.due_at > $3::double precision;

-- name: hasten_plans
WITH l AS (
  SELECT n.id FROM unnest($1::bigint[]) AS v (id) JOIN plans AS n ON n.id = v.id
  JOIN hints AS h ON h.id = v.id
  WHERE h.lastmod * 1e3::double precision > n.checked_ms AND h.lastmod <= $3::double precision
  ORDER BY n.id FOR NO KEY UPDATE OF n
)
UPDATE plans SET due_at = least(plans.due_at, $2::double precision) FROM l WHERE plans.id = l.id;

-- name: due_plans
SELECT coalesce(json_agg(json_build_array(
  v.slot,
  (
    SELECT coalesce(json_agg(json_build_array(
      q.id, q.url, q.depth, q.priority, q.flags, q.status, q.redirect_url, q.body_hash,
      q.interval_s, q.checked_at, q.changed_at, q.visits, q.failures, q.etag, q.last_modified,
      q.declared, q.listing, q.looked, q.data, q.referrer, q.content_type
    )), '[]')
    FROM (
      SELECT
        u.id, o.name || u.path AS url, u.depth, u.priority, u.flags,
        coalesce(k.status, g.status, 0) AS status,
        xo.name || x.path AS redirect_url, lpad(to_hex(p.body_hash), 16, '0') AS body_hash,
        n.interval_s, n.checked_ms / 1e3::double precision AS checked_at,
        n.changed_ms / 1e3::double precision AS changed_at, n.visits, n.failures,
        n.etag, n.last_modified,
        coalesce(n.declared, CASE WHEN k.directives & 7 = 7 AND k.usage IS NULL THEN '' END)
          AS declared,
        CASE WHEN u.flags & 32 <> 0 THEN (
          SELECT json_build_array(h.lastmod, h.changefreq, h.priority) FROM hints AS h WHERE h.id = u.id
        ) END AS listing,
        coalesce(k.directives, 0) >> 3 AS looked,
        (SELECT t.text FROM texts AS t WHERE t.id = k.content_type) AS content_type,
        CASE WHEN u.flags & 128 <> 0 THEN (SELECT d.json FROM data AS d WHERE d.id = u.id) END AS data,
        CASE WHEN $2::boolean THEN (
          SELECT ro.name || r.path FROM urls AS r JOIN origins AS ro ON ro.id = r.origin
          WHERE r.id = u.referrer
        ) END AS referrer
      FROM plans AS n JOIN urls AS u ON u.id = n.id
      JOIN origins AS o ON o.id = u.origin
      LEFT JOIN pages AS p ON p.id = u.id LEFT JOIN kinds AS k ON k.id = p.kind
      LEFT JOIN readings AS g ON g.id = u.id AND u.state = 4
      LEFT JOIN redirects AS d ON d.id = u.id LEFT JOIN urls AS x ON x.id = d.target
      LEFT JOIN origins AS xo ON xo.id = x.origin
      WHERE n.slot = v.slot AND n.due_at <= $3::double precision
      AND n.id NOT IN (SELECT value::bigint FROM json_array_elements_text($4::json))
      AND o.name NOT IN (SELECT value FROM json_array_elements_text($5::json))
      ORDER BY n.due_at, n.id LIMIT $6::bigint
    ) AS q
  ),
  (
    SELECT n.due_at - $7::double precision FROM plans AS n
    WHERE n.slot = v.slot AND n.due_at > $8::double precision
    AND n.id NOT IN (SELECT value::bigint FROM json_array_elements_text($9::json))
    ORDER BY n.due_at LIMIT 1
  )
)), '[]')::text
FROM unnest($1::bigint[]) AS v (slot);

-- name: revisits_due
SELECT s.name FROM slots AS s
WHERE s.revisit_at IS NOT NULL AND s.lease IS NULL AND s.paused = 0
AND s.revisit_at <= $1::double precision
AND greatest(s.next_at, s.backoff_until) <= $1::double precision
ORDER BY s.revisit_at LIMIT $2::bigint;

-- In order of their due time, so that the search for the first that may be visited ends where that
-- alone is later than the best. Few of the rows are needed: the best of the first thousand will do.
-- name: next_revisit
SELECT s.revisit_at, greatest(s.next_at, s.backoff_until) FROM slots AS s
WHERE s.revisit_at IS NOT NULL AND s.lease IS NULL AND s.paused = 0
ORDER BY s.revisit_at LIMIT 1000;

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

-- name: slots_unplanned
SELECT coalesce(json_agg(json_build_array(u.id, o.slot)), '[]')::text
FROM unnest($1::bigint[]) AS v (id) JOIN urls AS u ON u.id = v.id AND u.state = 1
JOIN origins AS o ON o.id = u.origin
WHERE NOT EXISTS (SELECT 1 FROM plans AS n WHERE n.id = v.id);

-- name: drop_pages
DELETE FROM pages WHERE id = ANY ($1::bigint[]);

-- name: new_ungoverned
INSERT INTO ungoverned (origin, id) SELECT * FROM unnest($1::bigint[], $2::bigint[]);

-- name: drop_ungoverned
DELETE FROM ungoverned AS g USING unnest($1::bigint[], $2::bigint[]) AS v (origin, id)
WHERE g.origin = v.origin AND g.id = v.id;

-- name: new_blocks
INSERT INTO blocks (origin, id, verdict, judged, blocked_at, withdrawn)
SELECT * FROM unnest(
  $1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::double precision[], $6::smallint[]
);

-- name: drop_blocks
DELETE FROM blocks AS b USING unnest($1::bigint[], $2::bigint[]) AS v (origin, id)
WHERE b.origin = v.origin AND b.id = v.id;

-- name: new_failures
INSERT INTO failures (id, error, attempts, last_at)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::double precision[]);

-- name: drop_failures
DELETE FROM failures WHERE id = ANY ($1::bigint[]);

-- name: put_tries
INSERT INTO tries (id, attempts, refusals, error)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
ON CONFLICT (id) DO UPDATE SET
  attempts = excluded.attempts, refusals = excluded.refusals, error = excluded.error;

-- name: drop_tries
DELETE FROM tries WHERE id = ANY ($1::bigint[]);

-- name: put_redirects
INSERT INTO redirects (id, target) SELECT * FROM unnest($1::bigint[], $2::bigint[])
ON CONFLICT (id) DO UPDATE SET target = excluded.target;

-- name: drop_redirects
DELETE FROM redirects WHERE id = ANY ($1::bigint[]);

-- URLs that redirect to one, with ids above another.
-- name: leading_to
SELECT coalesce(json_agg(id), '[]')::text FROM (
  SELECT r.id FROM redirects AS r WHERE r.target = $1::bigint AND r.id > $2::bigint
  ORDER BY r.id LIMIT $3::bigint
) AS q;

-- Of the given ones, those that anything redirects to.
-- name: led_to
SELECT coalesce(json_agg(v.id ORDER BY v.n), '[]')::text
FROM unnest($1::bigint[]) WITH ORDINALITY AS v (id, n)
WHERE EXISTS (SELECT 1 FROM redirects AS r WHERE r.target = v.id);

-- The transaction that reads them deletes them; others meanwhile take the next ones.
-- name: some_chains
SELECT coalesce(json_agg(json_build_array(root, after)), '[]')::text FROM (
  SELECT root, after FROM chains ORDER BY root LIMIT $1::bigint FOR UPDATE SKIP LOCKED
) AS q;

-- Of a root that is given twice, the last one counts; of one that another worker has put there, the
-- smaller id.
-- name: put_chains
INSERT INTO chains (root, after)
SELECT DISTINCT ON (v.root) v.root, v.after
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS v (root, after, n)
ORDER BY v.root, v.n DESC
ON CONFLICT (root) DO UPDATE SET after = least(chains.after, excluded.after);

-- name: drop_chains
DELETE FROM chains WHERE root = ANY ($1::bigint[]);

-- name: verdicts_of
SELECT coalesce(json_agg(json_build_array(
  u.id, b.withdrawn, w.reason, w.dialect, w.rule, w.line, w.robots_url, w.body
)), '[]')::text
FROM unnest($1::bigint[]) AS v (id) JOIN urls AS u ON u.id = v.id
JOIN blocks AS b ON b.origin = u.origin AND b.id = u.id
JOIN verdicts AS w ON w.id = b.verdict;

-- name: verdict_id
SELECT id FROM verdicts
WHERE (
  robots_url || E'\n' || reason || E'\n' || dialect || E'\n' || coalesce(rule, '') || E'\n'
  || coalesce(line, 0) || E'\n' || coalesce(body, 0)
) = (
  $1::text || E'\n' || $2::text || E'\n' || $3::text || E'\n' || coalesce($4::text, '') || E'\n'
  || coalesce($5::bigint, 0) || E'\n' || coalesce($6::bigint, 0)
);

-- name: new_verdict
INSERT INTO verdicts (robots_url, reason, dialect, rule, line, body)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::bigint)
ON CONFLICT DO NOTHING RETURNING id;

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

-- name: count_origins
WITH l AS (
  SELECT v.* FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[]
  ) AS v (id, queued, visited, blocked, failed, body_bytes, judged, ungoverned)
  JOIN origins AS o ON o.id = v.id ORDER BY o.id FOR NO KEY UPDATE OF o
)
UPDATE origins SET
  queued = origins.queued + l.queued, visited = origins.visited + l.visited,
  blocked = origins.blocked + l.blocked, failed = origins.failed + l.failed,
  body_bytes = origins.body_bytes + l.body_bytes, judged = origins.judged + l.judged,
  ungoverned = origins.ungoverned + l.ungoverned
FROM l WHERE origins.id = l.id;

-- name: count_slots
WITH l AS (
  SELECT v.* FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]
  ) AS v (id, queued, visited, blocked, failed, body_bytes)
  JOIN slots AS s ON s.id = v.id ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET
  queued = slots.queued + l.queued, visited = slots.visited + l.visited,
  blocked = slots.blocked + l.blocked, failed = slots.failed + l.failed,
  body_bytes = slots.body_bytes + l.body_bytes
FROM l WHERE slots.id = l.id;

-- What is newly queued is due at once, so a free host can move when it has rested. Most could
-- before, and are not written.
-- name: wake_slots
WITH l AS (
  SELECT s.id FROM unnest($1::bigint[]) AS v (id) JOIN slots AS s ON s.id = v.id
  WHERE s.lease IS NULL AND s.ready_at <> greatest(s.next_at, s.backoff_until)
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET ready_at = greatest(next_at, backoff_until) FROM l WHERE slots.id = l.id;

-- The clocks of held hosts, and what the same transaction counts there. The stamp is a new tick: whoever
-- has seen it, or a later one, knows that these clocks were stored before.
-- name: wind_slots
WITH l AS (
  SELECT v.* FROM unnest(
    $1::bigint[], $2::double precision[], $3::double precision[], $4::double precision[],
    $5::text[], $6::double precision[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
    $11::double precision[], $12::bigint[], $13::bigint[], $14::bigint[], $15::double precision[],
    $16::bigint[], $17::double precision[], $18::double precision[], $19::double precision[],
    $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[]
  ) AS v (
    id, next_at, backoff_until, delay_s, delay_source, latency_s, backoff_level, denials,
    connect_failures, contacts, smallest_rest_s, peak_concurrency, breaches, ring, ended_at,
    backoff_status, rest_s, backoff_s, rested_s, unproven, queued, visited, blocked, failed,
    body_bytes
  )
  JOIN slots AS s ON s.id = v.id ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET
  next_at = l.next_at, backoff_until = l.backoff_until, delay_s = l.delay_s,
  delay_source = l.delay_source, latency_s = l.latency_s, backoff_level = l.backoff_level,
  denials = l.denials, connect_failures = l.connect_failures, contacts = l.contacts,
  smallest_rest_s = l.smallest_rest_s, peak_concurrency = l.peak_concurrency,
  breaches = l.breaches, ring = l.ring, ended_at = coalesce(l.ended_at, slots.ended_at),
  backoff_status = l.backoff_status,
  rest_s = l.rest_s, backoff_s = l.backoff_s, rested_s = coalesce(l.rested_s, slots.rested_s),
  unproven = l.unproven,
  stamp = (SELECT nextval('ticks')), boot = $26::bigint, uptime_s = $27::double precision,
  queued = slots.queued + l.queued, visited = slots.visited + l.visited,
  blocked = slots.blocked + l.blocked, failed = slots.failed + l.failed,
  body_bytes = slots.body_bytes + l.body_bytes
FROM l WHERE slots.id = l.id;

-- Works out anew when free hosts can move, and gives back those that are released.
-- name: settle_slots
UPDATE slots SET
lease = CASE WHEN v.released THEN NULL ELSE slots.lease END,
clean = CASE WHEN v.released THEN 1 ELSE slots.clean END,
ready_at = greatest(
  next_at,
  backoff_until,
  (
    SELECT min(coalesce(
      (
        SELECT 0.0::double precision FROM urls AS u
        WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NULL LIMIT 1
      ),
      (
        SELECT u.due_at FROM urls AS u
        WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NOT NULL ORDER BY u.due_at LIMIT 1
      )
    ))
    FROM origins AS o WHERE o.slot = slots.id AND o.pending
  )
)
FROM unnest($1::bigint[], $2::boolean[]) AS v (id, released) WHERE slots.id = v.id;

-- name: put_contacts
INSERT INTO contacts (slot, place, start_at, end_at, kind, status)
SELECT DISTINCT ON (v.slot, v.place) v.slot, v.place, v.start_at, v.end_at, v.kind, v.status
FROM unnest(
  $1::bigint[], $2::bigint[], $3::double precision[], $4::double precision[], $5::text[],
  $6::bigint[]
) WITH ORDINALITY AS v (slot, place, start_at, end_at, kind, status, n)
ORDER BY v.slot, v.place, v.n DESC
ON CONFLICT (slot, place) DO UPDATE SET
  start_at = excluded.start_at, end_at = excluded.end_at, kind = excluded.kind,
  status = excluded.status;

-- name: move_origin
UPDATE origins SET slot = v.slot FROM unnest($1::bigint[], $2::bigint[]) AS v (id, slot)
WHERE origins.id = v.id;

-- Of origins that belonged to no host yet.
-- name: home_origins
WITH l AS (
  SELECT o.id, v.slot FROM unnest($1::bigint[], $2::bigint[]) AS v (id, slot)
  JOIN origins AS o ON o.id = v.id WHERE o.slot IS NULL
  ORDER BY o.id FOR NO KEY UPDATE OF o
)
UPDATE origins SET slot = l.slot FROM l WHERE origins.id = l.id;

-- name: origin_counts
SELECT queued, visited, blocked, failed, body_bytes FROM origins WHERE id = $1::bigint;

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

-- name: new_session
UPDATE crawl SET session = session + 1 RETURNING session;

-- name: begin_session
INSERT INTO sessions (id, name, began_at, beat_at)
VALUES ($1::bigint, $2::text, $3::double precision, extract(epoch FROM clock_timestamp()))
ON CONFLICT (id) DO UPDATE SET
  name = excluded.name, began_at = excluded.began_at, beat_at = excluded.beat_at, ended_at = NULL;

-- name: place_session
UPDATE sessions SET machine = $2::text, pid = $3::integer WHERE id = $1::bigint;

-- name: name_session
UPDATE sessions SET name = $1::text WHERE id = $2::bigint;

-- No row is changed if the session has been ended. It then holds nothing any more: see `revive`.
-- name: beat
UPDATE sessions SET
  beat = beat + 1, beat_at = extract(epoch FROM clock_timestamp()), idle = $2::boolean,
  hungry = $3::boolean, hosts = $4::bigint, in_flight = $5::bigint, pages = $6::bigint,
  pages_per_s = $7::double precision, uncommitted = $8::bigint, lease_s = $9::double precision,
  held = $10::text, last_at = $11::double precision
WHERE id = $1::bigint AND ended_at IS NULL
RETURNING beat;

-- Other live sessions.
-- name: others
SELECT coalesce(
  json_agg(json_build_array(id, beat, lease_s, idle::integer, hungry::integer) ORDER BY id), '[]'
)::text
FROM sessions WHERE ended_at IS NULL AND id <> $1::bigint;

-- Holds the addresses of $2, given with their delays, as far as no other session does, and frees
-- the session's others. Returns those that it holds. A session that is being reaped holds none: `reap` waits
-- for this, or this finds it ended.
-- name: hold_addresses
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

-- name: put_paused
UPDATE crawl SET paused = $1::smallint;

-- name: paused
SELECT paused FROM crawl;

-- With a renewal.
-- name: pulse_state
SELECT
  paused, returns, settled, (SELECT n.beat FROM sessions AS n WHERE n.id = $1::bigint),
  (SELECT t.commits FROM totals AS t WHERE t.session = $1::bigint)
FROM crawl;

-- All workers that did not know of the return have lost their leases by now.
-- name: settle_return
UPDATE crawl SET settled = $1::bigint WHERE returns = $1::bigint AND settled < returns;

-- name: end_session
UPDATE sessions SET ended_at = $1::double precision WHERE id = $2::bigint;

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

-- Free hosts that rest from their last contact alone, and could be reckoned anew.
-- name: rouse
WITH l AS (
  SELECT s.id FROM slots AS s
  WHERE s.lease IS NULL AND s.next_at > $1::double precision AND s.ended_at < s.next_at
  AND s.next_at <= s.ended_at + s.delay_s + 0.001
  AND (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = s.id LIMIT $2::bigint) AS c)
    < $2::bigint
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET next_at = ended_at FROM l WHERE slots.id = l.id RETURNING slots.id;

-- name: rouse_one
UPDATE slots AS s SET next_at = s.ended_at
WHERE s.name = $3::text AND s.lease IS NULL AND s.next_at > $1::double precision
AND s.ended_at < s.next_at AND s.next_at <= s.ended_at + s.delay_s + 0.001
AND (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = s.id LIMIT $2::bigint) AS c)
  < $2::bigint
RETURNING s.id;

-- name: held
SELECT coalesce(json_agg(json_build_array(id, name, epoch, ring)), '[]')::text
FROM slots WHERE lease = $1::bigint AND lease IS NOT NULL;

-- Locks hosts of a commit, and returns those that this session still holds.
-- name: lock_held
WITH l AS (
  SELECT s.id, s.lease, s.epoch, v.epoch AS expected
  FROM unnest($1::bigint[], $2::bigint[]) AS v (id, epoch) JOIN slots AS s ON s.id = v.id
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
SELECT coalesce(json_agg(l.id), '[]')::text
FROM l WHERE l.lease = $3::bigint AND l.epoch = l.expected;

-- Locks them; hosts that another worker is looking at are left to it.
-- name: claimable
SELECT coalesce(json_agg(id), '[]')::text FROM (
  SELECT s.id FROM slots AS s
  WHERE s.pending AND s.lease IS NULL AND s.paused = 0 AND s.ready_at <= $1::double precision
  ORDER BY s.ready_at, s.served, s.id LIMIT $2::bigint FOR NO KEY UPDATE SKIP LOCKED
) AS q;

-- Of free hosts, which it locks. Numbers are bounded, because JSON has no infinity.
-- name: leases
WITH l AS (
  SELECT s.*, v.n FROM unnest($1::bigint[]) WITH ORDINALITY AS v (id, n)
  JOIN slots AS s ON s.id = v.id WHERE s.lease IS NULL
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
SELECT coalesce(json_agg(json_build_array(
  s.id, s.name, s.epoch, (s.clean = 1 AND s.stamp > c.distrusted)::integer, s.lease,
  s.stamp, s.boot, s.uptime_s,
  least(s.rest_s, 1e12), CASE WHEN s.backoff_s IS NOT NULL THEN least(s.backoff_s, 1e12) END,
  least(s.delay_s, 1e12), s.delay_source,
  CASE WHEN s.latency_s IS NOT NULL THEN least(s.latency_s, 1e12) END, s.backoff_level, s.denials,
  s.connect_failures, s.contacts, s.smallest_rest_s, s.peak_concurrency, s.breaches,
  s.unproven, s.ring, CASE WHEN s.rested_s IS NOT NULL THEN least(s.rested_s, 1e12) END,
  s.paused, CASE WHEN s.slow_s IS NOT NULL THEN least(s.slow_s, 1e12) END, s.visited, s.body_bytes,
  (SELECT count(*) FROM (SELECT 1 FROM origins AS o WHERE o.slot = s.id LIMIT $2::bigint) AS n),
  s.backoff_status
) ORDER BY s.n), '[]')::text
FROM l AS s CROSS JOIN crawl AS c;

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

-- The best due URLs of some origins of the wanted slots, and in how many seconds the next one falls
-- due.
-- name: prefetch
SELECT coalesce(json_agg(json_build_array(
  v.slot, o.id, o.name,
  (
    SELECT coalesce(json_agg(json_build_array(
      q.id, q.path, q.depth, q.priority, q.turn, q.flags,
      CASE WHEN q.flags & 4 <> 0 THEN (SELECT t.attempts FROM tries AS t WHERE t.id = q.id) ELSE 0 END,
      CASE WHEN q.flags & 4 <> 0 THEN (SELECT t.refusals FROM tries AS t WHERE t.id = q.id) ELSE 0 END,
      CASE WHEN q.flags & 32 <> 0 THEN (
        SELECT json_build_array(h.lastmod, h.changefreq, h.priority) FROM hints AS h WHERE h.id = q.id
      ) END,
      CASE WHEN q.flags & 128 <> 0 THEN (SELECT d.json FROM data AS d WHERE d.id = q.id) END,
      CASE WHEN $3::boolean THEN (
        SELECT ro.name || r.path FROM urls AS r JOIN origins AS ro ON ro.id = r.origin
        WHERE r.id = q.referrer
      ) END
    )), '[]')
    FROM (
      SELECT u.id, u.path, u.depth, u.priority, u.turn, u.flags, u.referrer FROM urls AS u
      WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NULL
      AND u.id NOT IN (SELECT value::bigint FROM json_array_elements_text($4::json))
      ORDER BY u.priority DESC, u.turn, u.depth, u.id LIMIT $5::bigint
    ) AS q
  ),
  (
    SELECT u.due_at - $6::double precision FROM urls AS u
    WHERE u.origin = o.id AND u.state = 0 AND u.due_at IS NOT NULL ORDER BY u.due_at LIMIT 1
  )
)), '[]')::text
FROM unnest($1::bigint[], $2::bigint[]) AS v (slot, after) CROSS JOIN LATERAL (
  SELECT w.id, w.name FROM origins AS w
  WHERE w.slot = v.slot AND w.pending AND w.id > v.after
  ORDER BY w.id LIMIT $7::bigint
) AS o;

-- name: next_claim
SELECT s.ready_at FROM slots AS s WHERE s.pending AND s.lease IS NULL AND s.paused = 0
ORDER BY s.ready_at LIMIT 1;

-- A free host to which no URL belongs.
-- name: unused_slot
SELECT s.id FROM slots AS s
WHERE s.name = $1::text AND s.lease IS NULL AND NOT EXISTS (
  SELECT 1 FROM origins AS o JOIN known AS k ON k.origin = o.id WHERE o.slot = s.id
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
SELECT id FROM bodies WHERE hash = $1::bytea FOR KEY SHARE;

-- name: new_body
INSERT INTO bodies (hash, size, packed, domain, packed_bytes)
VALUES ($1::bytea, $2::bigint, $3::bytea, $4::text, $5::bigint)
ON CONFLICT DO NOTHING RETURNING id;

-- name: bytes_of_domain
SELECT coalesce(sum(packed_bytes), 0)::bigint FROM bodies WHERE domain = $1::text;

-- Bodies that only explain earlier verdicts, the oldest first.
-- name: unused_bodies
SELECT b.id, b.packed_bytes FROM bodies AS b
WHERE b.domain = $1::text AND NOT EXISTS (SELECT 1 FROM copies AS c WHERE c.body = b.id)
ORDER BY b.id LIMIT $2::bigint FOR UPDATE OF b SKIP LOCKED;

-- name: drop_earlier_copy
DELETE FROM earlier_copies WHERE body = $1::bigint;

-- name: empty_body
UPDATE bodies SET hash = $1::bytea, packed = $2::bytea, domain = NULL, packed_bytes = NULL
WHERE id = $3::bigint;

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

-- name: bodies_of_slot
SELECT DISTINCT c.body FROM origins AS o JOIN copies AS c ON c.origin = o.id
WHERE o.slot = $1::bigint AND c.body IS NOT NULL
UNION
SELECT e.body FROM origins AS o JOIN earlier_copies AS e ON e.origin = o.id
WHERE o.slot = $1::bigint;

-- name: drop_earlier_copies
DELETE FROM earlier_copies
WHERE origin IN (SELECT o.id FROM origins AS o WHERE o.slot = $1::bigint);

-- name: earlier_body
SELECT body FROM earlier_copies WHERE origin = $1::bigint;

-- Of the copy that is about to be replaced.
-- name: put_earlier_copy
INSERT INTO earlier_copies (origin, body, copy_at, replaced_at)
SELECT c.origin, c.body, c.copy_at, coalesce($2::double precision, c.copy_at, 0.0)
FROM copies AS c WHERE c.origin = $1::bigint AND c.body IS NOT NULL
ON CONFLICT (origin) DO UPDATE SET
  body = excluded.body, copy_at = excluded.copy_at, replaced_at = excluded.replaced_at;

-- name: earlier_copy
SELECT b.packed, e.copy_at, e.replaced_at
FROM origins AS o JOIN earlier_copies AS e ON e.origin = o.id JOIN bodies AS b ON b.id = e.body
WHERE o.name = $1::text;

-- name: drop_copies
DELETE FROM copies WHERE origin IN (SELECT o.id FROM origins AS o WHERE o.slot = $1::bigint);

-- name: put_copy
INSERT INTO copies (
  origin, body, status, copy_at, etag, last_modified, validators_url, fetched_at, expires_at,
  retry_at, failures, unreachable_since, gone_since, error, truncated
) VALUES (
  $1::bigint, $2::bigint, $3::bigint, $4::double precision, $5::text, $6::text, $7::text,
  $8::double precision, $9::double precision, $10::double precision, $11::bigint,
  $12::double precision, $13::double precision, $14::text, $15::smallint
)
ON CONFLICT (origin) DO UPDATE SET
  body = excluded.body, status = excluded.status, copy_at = excluded.copy_at, etag = excluded.etag,
  last_modified = excluded.last_modified, validators_url = excluded.validators_url,
  fetched_at = excluded.fetched_at, expires_at = excluded.expires_at, retry_at = excluded.retry_at,
  failures = excluded.failures, unreachable_since = excluded.unreachable_since,
  gone_since = excluded.gone_since, error = excluded.error, truncated = excluded.truncated;

-- name: put_robots_at
UPDATE origins SET robots_at = $1::double precision WHERE id = $2::bigint;

-- name: failing_robots
SELECT o.name, s.name, s.id FROM copies AS c JOIN origins AS o ON o.id = c.origin
JOIN slots AS s ON s.id = o.slot
WHERE c.failures > 0 AND starts_with(c.error, $2::text || ':')
AND ($1::text IS NULL OR o.hostname = $1::text OR s.name = $1::text);

-- What it was put off for, beyond its delay, was the robots.txt.
-- name: release_slots
WITH l AS (
  SELECT s.id FROM unnest($1::bigint[]) AS v (id) JOIN slots AS s ON s.id = v.id
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET next_at = least(next_at, $2::double precision + delay_s), rest_s = least(rest_s, delay_s)
FROM l WHERE slots.id = l.id;

-- name: mark_to_rejudge
UPDATE origins SET rejudge_at = coalesce(rejudge_at, $1::double precision) WHERE id = $2::bigint;

-- Of pages that were asked for before there was an answer, and committed after.
-- name: mark_late
WITH l AS (
  SELECT o.id FROM unnest($1::bigint[]) AS v (id) JOIN origins AS o ON o.id = v.id
  WHERE EXISTS (SELECT 1 FROM copies AS c WHERE c.origin = o.id AND c.failures = 0)
  ORDER BY o.id FOR NO KEY UPDATE OF o
)
UPDATE origins SET rejudge_at = coalesce(rejudge_at, $2::double precision)
FROM l WHERE origins.id = l.id;

-- name: mark_all_to_rejudge
WITH l AS (
  SELECT id FROM origins WHERE rejudge_at IS NULL AND judgeable ORDER BY id FOR NO KEY UPDATE
)
UPDATE origins SET rejudge_at = $1::double precision FROM l WHERE origins.id = l.id;

-- name: rejudge_due
SELECT s.name, o.name FROM origins AS o JOIN slots AS s ON s.id = o.slot
WHERE o.rejudge_at IS NOT NULL AND o.judgeable
ORDER BY o.rejudge_at LIMIT $1::bigint;

-- name: rejudge_done
UPDATE origins SET rejudge_at = NULL WHERE name = $1::text;

-- name: body_of_copy
SELECT body FROM copies WHERE origin = $1::bigint;

-- name: copy
SELECT
  o.name, b.packed, c.status, c.copy_at, c.etag, c.last_modified, c.validators_url, c.fetched_at,
  c.expires_at, c.retry_at, c.failures, c.unreachable_since, c.gone_since, c.error, c.truncated
FROM origins AS o JOIN copies AS c ON c.origin = o.id LEFT JOIN bodies AS b ON b.id = c.body
WHERE o.name = $1::text;

-- Of hosts with many origins, the copies of some, those with queued URLs first.
-- name: copies_of_slots
SELECT
  v.slot, l.size, o.name, b.packed, c.status, c.copy_at, c.etag, c.last_modified,
  c.validators_url, c.fetched_at, c.expires_at, c.retry_at, c.failures, c.unreachable_since,
  c.gone_since, c.error, c.truncated
FROM unnest($1::bigint[]) AS v (slot) CROSS JOIN LATERAL (
  (SELECT w.id, w.name FROM origins AS w WHERE w.slot = v.slot AND w.pending LIMIT $2::bigint)
  UNION
  (SELECT a.id, a.name FROM origins AS a WHERE a.slot = v.slot LIMIT $3::bigint)
) AS o
JOIN copies AS c ON c.origin = o.id
LEFT JOIN bodies AS b ON b.id = c.body AND b.size <= $4::bigint
LEFT JOIN bodies AS l ON l.id = c.body AND l.size > $5::bigint;

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

-- name: ungoverned
SELECT coalesce(json_agg(json_build_array(id, url)), '[]')::text FROM (
  SELECT g.id, o.name || u.path AS url FROM origins AS o JOIN ungoverned AS g ON g.origin = o.id
  JOIN urls AS u ON u.id = g.id
  WHERE o.name = $1::text ORDER BY g.id LIMIT $2::bigint
) AS q;

-- name: blocked_by_robots
SELECT coalesce(json_agg(json_build_array(id, url)), '[]')::text FROM (
  SELECT b.id, o.name || u.path AS url FROM origins AS o JOIN blocks AS b ON b.origin = o.id
  JOIN urls AS u ON u.id = b.id
  WHERE o.name = $1::text AND b.id > $2::bigint AND b.judged = 1 ORDER BY b.id LIMIT $3::bigint
) AS q;

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

-- name: drop_some_tries
DELETE FROM tries
WHERE id = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text($1::json)));

-- name: fail_some
INSERT INTO failures (id, error, attempts, last_at)
SELECT value::bigint, $2::bigint, $3::bigint, $4::double precision
FROM json_array_elements_text($1::json);

-- name: fail_some_urls
UPDATE urls SET state = 3, due_at = NULL, turn = 0, flags = flags & ~68::bigint
WHERE id = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text($1::json)));

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

-- They are locked.
-- name: some_failed
SELECT coalesce(json_agg(json_build_array(id, origin, slot, name)), '[]')::text FROM (
  SELECT f.id, u.origin, o.slot, s.name FROM failures AS f
  JOIN urls AS u ON u.id = f.id
  JOIN origins AS o ON o.id = u.origin
  JOIN slots AS s ON s.id = o.slot
  WHERE f.id > $1::bigint AND ($2::text IS NULL OR o.hostname = $2::text OR s.name = $2::text)
  AND ($4::text IS NULL OR EXISTS (
    SELECT 1 FROM texts AS t WHERE t.id = f.error AND starts_with(t.text, $4::text || ':')
  ))
  ORDER BY f.id LIMIT $3::bigint FOR NO KEY UPDATE OF f
) AS q;

-- name: retry_some
UPDATE urls SET state = 0, turn = 0, due_at = NULL
WHERE id = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text($1::json)));

-- name: drop_some_failures
DELETE FROM failures
WHERE id = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text($1::json)));

-- name: failed_slots
SELECT coalesce(json_agg(DISTINCT o.slot), '[]')::text
FROM origins AS o JOIN slots AS s ON s.id = o.slot
WHERE o.failed > 0 AND ($1::text IS NULL OR o.hostname = $1::text OR s.name = $1::text);

-- name: forgive_slots
WITH l AS (
  SELECT s.id FROM unnest($1::bigint[]) AS v (id) JOIN slots AS s ON s.id = v.id
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE slots SET
  next_at = CASE
    WHEN backoff_until IS NOT NULL OR connect_failures > 0
    THEN least(next_at, $2::double precision + delay_s)
    ELSE next_at
  END,
  rest_s = CASE
    WHEN backoff_until IS NOT NULL OR connect_failures > 0 THEN least(rest_s, delay_s) ELSE rest_s
  END,
  connect_failures = 0, backoff_level = 0, backoff_until = NULL, backoff_s = NULL,
  backoff_status = NULL
FROM l WHERE slots.id = l.id;

-- name: control
UPDATE slots SET
  paused = coalesce($1::smallint, paused),
  slow_s = CASE WHEN $2::boolean THEN $3::double precision ELSE slow_s END
WHERE name = $4::text
RETURNING id;

-- ---------------------------------------------------------------- the history of the crawl

-- name: put_history
INSERT INTO history (
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness
)
SELECT
  v.step_s, v.at, v.session, v.observed_s, v.success, v.redirects, v.client_errors, v.server_errors,
  v.unanswered, v.failed, v.given_up, v.queued, v.latency, v.lateness
FROM unnest(
  $1::bigint[], $2::bigint[], $3::bigint[], $4::double precision[], $5::bigint[], $6::bigint[],
  $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
  $13::text[], $14::text[]
) AS v (
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness
)
ON CONFLICT (step_s, at, session) DO UPDATE SET
  observed_s = excluded.observed_s, success = excluded.success, redirects = excluded.redirects,
  client_errors = excluded.client_errors, server_errors = excluded.server_errors,
  unanswered = excluded.unanswered, failed = excluded.failed, given_up = excluded.given_up,
  queued = excluded.queued, latency = excluded.latency, lateness = excluded.lateness;

-- name: put_marks
INSERT INTO marks (
  session, number, at, until, lasting, kind, reason, sentence, actor, via
)
SELECT
  v.session, v.number, v.at, v.until, v.lasting, v.kind, v.reason, v.sentence, v.actor, v.via
FROM unnest(
  $1::bigint[], $2::bigint[], $3::double precision[], $4::double precision[], $5::bigint[],
  $6::text[], $7::text[], $8::text[], $9::text[], $10::text[]
) AS v (
  session, number, at, until, lasting, kind, reason, sentence, actor, via
)
ON CONFLICT (session, number) DO UPDATE SET
  at = excluded.at, until = excluded.until, lasting = excluded.lasting, kind = excluded.kind,
  reason = excluded.reason, sentence = excluded.sentence, actor = excluded.actor, via = excluded.via;

-- Rows that another worker is folding are left to it.
-- name: fold_history
DELETE FROM history WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM history WHERE step_s = $1::bigint AND at < $2::bigint
  ORDER BY at, session LIMIT $3::bigint FOR UPDATE SKIP LOCKED
))
RETURNING
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness;

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
RETURNING
  h.step_s, h.at, h.session, h.observed_s, h.success, h.redirects, h.client_errors, h.server_errors,
  h.unanswered, h.failed, h.given_up, h.queued, h.latency, h.lateness;

-- Of the rows of a step, newest first: when the one begins before which so many are.
-- name: history_excess
SELECT at FROM history WHERE step_s = $1::bigint ORDER BY at DESC LIMIT 1 OFFSET $2::bigint;

-- name: history_of_hour
SELECT
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness
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
SELECT
  step_s, at, session, observed_s, success, redirects, client_errors, server_errors, unanswered,
  failed, given_up, queued, latency, lateness
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

-- name: ids_of_host
SELECT coalesce(json_agg(id), '[]')::text FROM known WHERE id > 0 AND origin IN (
  SELECT id FROM origins WHERE hostname = $1::text
  UNION SELECT o.id FROM origins AS o JOIN slots AS s ON s.id = o.slot WHERE s.name = $1::text
);

-- name: body_of_block
SELECT b.packed FROM urls AS u JOIN blocks AS k ON k.origin = u.origin AND k.id = u.id
JOIN verdicts AS v ON v.id = k.verdict JOIN bodies AS b ON b.id = v.body
WHERE u.id = $1::bigint;
