-- Migration 7. Visited pages that are to be visited again. Flag 32 of a URL: a sitemap says something of
-- it (a row in `hints`).

CREATE TABLE plans (
  id INTEGER PRIMARY KEY,
  slot INTEGER NOT NULL,                -- that of its origin
  due_at REAL NOT NULL,                 -- the store's time
  interval_s REAL NOT NULL,
  checked_ms INTEGER NOT NULL,          -- Unix milliseconds
  changed_ms INTEGER NOT NULL,
  visits INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  etag TEXT,
  last_modified TEXT
) STRICT;

CREATE INDEX plans_of_slot ON plans (slot, due_at);

-- The soonest of a host's plans, NULL where it has none.
ALTER TABLE slots ADD COLUMN revisit_at REAL;

CREATE INDEX slots_to_revisit ON slots (revisit_at)
  WHERE revisit_at IS NOT NULL AND lease IS NULL AND paused = 0;

UPDATE urls SET flags = flags | 32 WHERE id IN (SELECT id FROM hints);

DROP VIEW visited;

CREATE VIEW visited AS
SELECT
  o.name || u.path AS url, p.status, p.fetched_ms / 1e3 AS fetched_at, t.text AS content_type,
  p.body_bytes, p.elapsed_us / 1e6 AS elapsed_s, u.depth, ro.name || r.path AS referrer,
  xo.name || x.path AS redirect_url, p.title, p.directives & 1 AS indexable,
  p.directives >> 1 & 1 AS followable, p.directives >> 2 & 1 AS archivable,
  co.name || c.path AS canonical_url, iif(p.body_hash IS NULL, NULL, printf('%016x', p.body_hash)) AS body_hash,
  s.text AS usage,
  coalesce(n.visits, 1) AS visits, coalesce(n.checked_ms, p.fetched_ms) / 1e3 AS checked_at,
  n.changed_ms / 1e3 AS changed_at, n.due_at - (SELECT shift_s FROM crawl) AS next_visit_at, u.id
FROM pages AS p
JOIN urls AS u ON u.id = p.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN texts AS t ON t.id = p.content_type
LEFT JOIN urls AS r ON r.id = u.referrer
LEFT JOIN origins AS ro ON ro.id = r.origin
LEFT JOIN redirects AS d ON d.id = u.id
LEFT JOIN urls AS x ON x.id = d.target
LEFT JOIN origins AS xo ON xo.id = x.origin
LEFT JOIN urls AS c ON c.id = p.canonical
LEFT JOIN origins AS co ON co.id = c.origin
LEFT JOIN texts AS s ON s.id = p.usage
LEFT JOIN plans AS n ON n.id = u.id;
