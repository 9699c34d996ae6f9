-- Migration 8. What many pages share is kept once: six bytes a page.

CREATE TABLE kinds (
  id INTEGER PRIMARY KEY,
  status INTEGER NOT NULL,
  content_type INTEGER REFERENCES texts (id),
  directives INTEGER NOT NULL,          -- 1 indexable, 2 followable, 4 archivable
  usage INTEGER REFERENCES texts (id)
) STRICT;

INSERT INTO kinds (status, content_type, directives, usage)
SELECT DISTINCT status, content_type, directives, usage FROM pages;

CREATE UNIQUE INDEX kinds_once ON kinds (
  status, directives, coalesce(content_type, 0), coalesce(usage, 0)
);

DROP VIEW visited;

CREATE TABLE smaller_pages (  -- visited
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL REFERENCES kinds (id),
  fetched_ms INTEGER NOT NULL,          -- Unix milliseconds
  body_bytes INTEGER NOT NULL,
  elapsed_us INTEGER NOT NULL,          -- microseconds
  title TEXT,
  canonical INTEGER,                    -- a row of urls
  body_hash INTEGER                     -- 64 bits of blake2b
) STRICT;

-- In the order of their ids, so that nothing is sorted.
INSERT INTO smaller_pages
SELECT
  p.id, k.id, p.fetched_ms, p.body_bytes, p.elapsed_us, p.title, p.canonical, p.body_hash
FROM pages AS p CROSS JOIN kinds AS k
  ON k.status = p.status AND k.directives = p.directives
  AND coalesce(k.content_type, 0) = coalesce(p.content_type, 0)
  AND coalesce(k.usage, 0) = coalesce(p.usage, 0)
ORDER BY p.id;

DROP TABLE pages;
ALTER TABLE smaller_pages RENAME TO pages;

-- CROSS JOIN: every page is looked at before its kind. From a kind there is no way to its pages.
CREATE VIEW visited AS
SELECT
  o.name || u.path AS url, k.status, p.fetched_ms / 1e3 AS fetched_at, t.text AS content_type,
  p.body_bytes, p.elapsed_us / 1e6 AS elapsed_s, u.depth, ro.name || r.path AS referrer,
  xo.name || x.path AS redirect_url, p.title, k.directives & 1 AS indexable,
  k.directives >> 1 & 1 AS followable, k.directives >> 2 & 1 AS archivable,
  co.name || c.path AS canonical_url, iif(p.body_hash IS NULL, NULL, printf('%016x', p.body_hash)) AS body_hash,
  s.text AS usage,
  coalesce(n.visits, 1) AS visits, coalesce(n.checked_ms, p.fetched_ms) / 1e3 AS checked_at,
  n.changed_ms / 1e3 AS changed_at, n.due_at - (SELECT shift_s FROM crawl) AS next_visit_at, u.id
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
LEFT JOIN plans AS n ON n.id = u.id;
