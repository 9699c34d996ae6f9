-- The views of both engines: the documented interface. storage/sql_source.py describes the
-- words that are not SQL. A view's columns are those of `storage.columns.VIEWS`, and keys behind them.
--
-- The first table of each view is the one by whose index a reader continues where it was, and finds
-- the row of one URL.

CREATE VIEW visited AS
SELECT
  o.name || u.path AS url, k.status, p.fetched_ms / 1e3 AS fetched_at,
  t.text AS content_type, p.body_bytes, p.elapsed_us / 1e6 AS elapsed_s, u.depth,
  ro.name || r.path AS referrer, xo.name || x.path AS redirect_url, p.title,
  k.directives & 1 AS indexable, k.directives >> 1 & 1 AS followable,
  k.directives >> 2 & 1 AS archivable, co.name || c.path AS canonical_url,
  hex16(p.body_hash) {postgres: COLLATE "C"} AS body_hash, s.text AS usage,
  coalesce(n.visits, 1) AS visits,
  coalesce(n.checked_ms, p.fetched_ms) / 1e3 AS checked_at,
  n.changed_ms / 1e3 AS changed_at,
  n.due_at - (SELECT shift_s FROM crawl) AS next_visit_at, l.text AS cut, p.id
FROM pages AS p
CROSS JOIN kinds AS k ON k.id = p.kind
JOIN urls AS u ON u.id = p.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN texts AS t ON t.id = k.content_type
LEFT JOIN urls AS r ON r.id = u.referrer
LEFT JOIN origins AS ro ON ro.id = r.origin
LEFT JOIN redirects AS d ON d.id = u.id
LEFT JOIN urls AS x ON x.id = d.target
LEFT JOIN origins AS xo ON xo.id = x.origin
LEFT JOIN urls AS c ON c.id = p.canonical
LEFT JOIN origins AS co ON co.id = c.origin
LEFT JOIN texts AS s ON s.id = k.usage
LEFT JOIN texts AS l ON l.id = k.cut
LEFT JOIN plans AS n ON n.id = u.id;

CREATE VIEW blocked AS
SELECT
  o.name || u.path AS url, v.reason, v.dialect, v.rule, v.line, v.robots_url, b.blocked_at,
  b.withdrawn, u.anchor, ro.name || r.path AS referrer, u.id
FROM {sqlite: blocks AS b JOIN urls AS u ON u.id = b.id AND u.origin = b.origin}
  {postgres: urls AS u JOIN blocks AS b ON b.origin = u.origin AND b.id = u.id}
JOIN origins AS o ON o.id = u.origin
JOIN verdicts AS v ON v.id = b.verdict
LEFT JOIN urls AS r ON r.id = u.referrer
LEFT JOIN origins AS ro ON ro.id = r.origin
{postgres: WHERE u.state = 2};

CREATE VIEW failed AS
SELECT o.name || u.path AS url, t.text AS error, f.attempts, f.last_at, f.id
FROM failures AS f
JOIN urls AS u ON u.id = f.id
JOIN origins AS o ON o.id = u.origin
JOIN texts AS t ON t.id = f.error;

CREATE VIEW queued AS
SELECT
  o.name || u.path AS url, u.priority, u.depth,
  coalesce(u.due_at - (SELECT shift_s FROM crawl), 0.0) AS due_at,
  coalesce(t.attempts, 0) AS attempts, u.id
FROM urls AS u
JOIN origins AS o ON o.id = u.origin
LEFT JOIN tries AS t ON t.id = u.id
WHERE u.state = 0;

CREATE VIEW links AS
SELECT
  so.name || s.path AS source, xo.name || x.path AS target, e.anchor,
  CASE WHEN e.rel = 1 THEN 'nofollow' WHEN e.rel = 2 THEN 'canonical' WHEN e.rel = 3 THEN 'redirect'
    WHEN e.rel > 3 THEN 'requisite' END {postgres: COLLATE "C"} AS rel,
  CASE e.rel WHEN 5 THEN 'image' WHEN 6 THEN 'style' WHEN 7 THEN 'script' WHEN 8 THEN 'font'
    WHEN 9 THEN 'media' END {postgres: COLLATE "C"} AS kind,
  e.source AS id, e.target AS target_id
FROM edges AS e
JOIN urls AS s ON s.id = e.source
JOIN origins AS so ON so.id = s.origin
JOIN urls AS x ON x.id = e.target
JOIN origins AS xo ON xo.id = x.origin;

CREATE VIEW malformed AS
SELECT so.name || s.path AS source, h.href, h.reason, h.source AS id, h.place
FROM hrefs AS h
JOIN urls AS s ON s.id = h.source
JOIN origins AS so ON so.id = s.origin;

CREATE VIEW fragments AS
SELECT
  so.name || s.path AS source, xo.name || x.path AS target, f.fragment,
  CASE
    WHEN EXISTS (
      SELECT 1 FROM elements AS e
      WHERE e.page = f.target
        {postgres: AND left(e.name, 500) IN (left(f.fragment, 500), left(f.decoded, 500))}
        AND e.name IN (f.fragment, f.decoded)
    ) THEN 1
    WHEN k.directives & 16 <> 0 THEN 0
  END AS found,
  f.source AS id, f.place
FROM pointers AS f
JOIN urls AS s ON s.id = f.source
JOIN origins AS so ON so.id = s.origin
JOIN urls AS x ON x.id = f.target
JOIN origins AS xo ON xo.id = x.origin
LEFT JOIN pages AS p ON p.id = f.target
LEFT JOIN kinds AS k ON k.id = p.kind;

CREATE VIEW hosts AS
SELECT
  name AS host, queued, visited, blocked, failed, body_bytes, delay_s, delay_source,
  next_at - (SELECT shift_s FROM crawl) AS next_at, paused,
  backoff_until - (SELECT shift_s FROM crawl) AS backoff_until,
  contacts, smallest_rest_s, peak_concurrency, breaches, slow_s, latency_s, connect_failures,
  backoff_status, unproven, id
FROM slots;

CREATE VIEW robots AS
SELECT
  o.name AS origin, s.name AS host,
  CASE
    WHEN c.body IS NOT NULL AND c.failures > 0 THEN 'stale'
    WHEN c.body IS NOT NULL THEN 'rules'
    WHEN c.failures > 0 THEN 'unreachable'
    WHEN c.status IS NULL THEN 'unknown'
    ELSE 'absent'
  END {postgres: COLLATE "C"} AS state,
  c.status, c.fetched_at, c.expires_at, c.retry_at, b.size AS body_bytes, c.failures, c.error,
  c.truncated, c.origin AS id
FROM {sqlite: copies AS c JOIN origins AS o ON o.id = c.origin}
  {postgres: origins AS o JOIN copies AS c ON c.origin = o.id}
JOIN slots AS s ON s.id = o.slot
LEFT JOIN bodies AS b ON b.id = c.body;

CREATE VIEW skipped AS
SELECT reason, {postgres: sum(}count{postgres: )::bigint} AS count
FROM skips {postgres: GROUP BY reason};

CREATE VIEW sitemaps AS
SELECT
  o.name || u.path AS url, g.kind, g.status, g.fetched_ms / 1e3 AS fetched_at,
  g.body_bytes, g.urls, t.text AS error, u.depth, ro.name || r.path AS referrer, g.id
FROM readings AS g
JOIN urls AS u ON u.id = g.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN texts AS t ON t.id = g.error
LEFT JOIN urls AS r ON r.id = u.referrer
LEFT JOIN origins AS ro ON ro.id = r.origin
WHERE u.flags & 16 <> 0;

CREATE VIEW listings AS
SELECT
  o.name || u.path AS url, CAST(l.lastmod AS double precision) AS lastmod_at, l.changefreq, l.priority, l.id
FROM hints AS l
JOIN urls AS u ON u.id = l.id
JOIN origins AS o ON o.id = u.origin;
