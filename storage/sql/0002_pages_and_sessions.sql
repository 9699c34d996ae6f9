-- Migration 2. Whole numbers take less room than floating point ones: 10 bytes a page. And a diary
-- of who wrote when.

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,               -- as in crawl
  name TEXT NOT NULL,
  began_at REAL NOT NULL,               -- Unix seconds
  ended_at REAL                         -- NULL: it goes on, or ended without a farewell
) STRICT;

DROP VIEW visited;

CREATE TABLE smaller_pages (  -- visited
  id INTEGER PRIMARY KEY,
  status INTEGER NOT NULL,
  fetched_ms INTEGER NOT NULL,          -- Unix milliseconds
  content_type INTEGER REFERENCES texts (id),
  body_bytes INTEGER NOT NULL,
  elapsed_us INTEGER NOT NULL,          -- microseconds
  title TEXT,
  directives INTEGER NOT NULL           -- 1 indexable, 2 followable, 4 archivable
) STRICT;

INSERT INTO smaller_pages
SELECT
  id, status, CAST(round(fetched_at * 1e3) AS INTEGER), content_type, body_bytes,
  CAST(round(elapsed_s * 1e6) AS INTEGER), title, indexable + 2 * followable + 4 * archivable
FROM pages;

DROP TABLE pages;
ALTER TABLE smaller_pages RENAME TO pages;

CREATE VIEW visited AS
SELECT
  o.name || u.path AS url, p.status, p.fetched_ms / 1e3 AS fetched_at, t.text AS content_type,
  p.body_bytes, p.elapsed_us / 1e6 AS elapsed_s, u.depth, ro.name || r.path AS referrer,
  xo.name || x.path AS redirect_url, p.title, p.directives & 1 AS indexable,
  p.directives >> 1 & 1 AS followable, p.directives >> 2 & 1 AS archivable, u.id
FROM pages AS p
JOIN urls AS u ON u.id = p.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN texts AS t ON t.id = p.content_type
LEFT JOIN urls AS r ON r.id = u.referrer
LEFT JOIN origins AS ro ON ro.id = r.origin
LEFT JOIN redirects AS d ON d.id = u.id
LEFT JOIN urls AS x ON x.id = d.target
LEFT JOIN origins AS xo ON xo.id = x.origin;
