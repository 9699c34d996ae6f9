-- Migration 11. What reports ask of pages besides: what was cut of a page, hrefs that are no URLs, fragments
-- with the elements they name, and what kind of file a requisite is.

-- directives: from the fourth bit on a storage.base.Looked. cut: reasons, separated by blanks.
ALTER TABLE kinds ADD COLUMN cut INTEGER REFERENCES texts (id);

DROP INDEX kinds_once;

CREATE UNIQUE INDEX kinds_once ON kinds (
  status, directives, coalesce(content_type, 0), coalesce(usage, 0), coalesce(cut, 0)
);

CREATE TABLE hrefs (  -- of visited pages: those that are malformed
  source INTEGER NOT NULL,
  place INTEGER NOT NULL,
  href TEXT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (source, place)
) STRICT, WITHOUT ROWID;

CREATE VIEW malformed AS
SELECT so.name || s.path AS source, h.href, h.reason, h.source AS id, h.place
FROM hrefs AS h
JOIN urls AS s ON s.id = h.source
JOIN origins AS so ON so.id = s.origin;

CREATE TABLE pointers (  -- links of visited pages with a fragment
  source INTEGER NOT NULL,
  place INTEGER NOT NULL,
  target INTEGER NOT NULL,              -- a row of urls
  fragment TEXT NOT NULL,               -- as in a URL
  decoded TEXT,                         -- without percent-encoding, where that differs
  PRIMARY KEY (source, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE elements (  -- of visited pages: what a fragment can point to
  page INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (page, name)
) STRICT, WITHOUT ROWID;

CREATE VIEW fragments AS
SELECT
  so.name || s.path AS source, xo.name || x.path AS target, f.fragment,
  CASE
    WHEN EXISTS (
      SELECT 1 FROM elements AS e WHERE e.page = f.target AND e.name IN (f.fragment, f.decoded)
    ) THEN 1
    WHEN k.directives & 16 THEN 0
  END AS found,
  f.source AS id, f.place
FROM pointers AS f
JOIN urls AS s ON s.id = f.source
JOIN origins AS so ON so.id = s.origin
JOIN urls AS x ON x.id = f.target
JOIN origins AS xo ON xo.id = x.origin
LEFT JOIN pages AS p ON p.id = f.target
LEFT JOIN kinds AS k ON k.id = p.kind;

DROP VIEW links;

CREATE VIEW links AS
SELECT
  so.name || s.path AS source, xo.name || x.path AS target, e.anchor,
  CASE WHEN e.rel = 1 THEN 'nofollow' WHEN e.rel = 2 THEN 'canonical' WHEN e.rel = 3 THEN 'redirect'
    WHEN e.rel > 3 THEN 'requisite' END AS rel,
  CASE e.rel WHEN 5 THEN 'image' WHEN 6 THEN 'style' WHEN 7 THEN 'script' WHEN 8 THEN 'font'
    WHEN 9 THEN 'media' END AS kind,
  e.source AS id, e.target AS target_id
FROM edges AS e
JOIN urls AS s ON s.id = e.source
JOIN origins AS so ON so.id = s.origin
JOIN urls AS x ON x.id = e.target
JOIN origins AS xo ON xo.id = x.origin;

DROP VIEW visited;

CREATE VIEW visited AS
SELECT
  o.name || u.path AS url, k.status, p.fetched_ms / 1e3 AS fetched_at, t.text AS content_type,
  p.body_bytes, p.elapsed_us / 1e6 AS elapsed_s, u.depth, ro.name || r.path AS referrer,
  xo.name || x.path AS redirect_url, p.title, k.directives & 1 AS indexable,
  k.directives >> 1 & 1 AS followable, k.directives >> 2 & 1 AS archivable,
  co.name || c.path AS canonical_url, iif(p.body_hash IS NULL, NULL, printf('%016x', p.body_hash)) AS body_hash,
  s.text AS usage,
  coalesce(n.visits, 1) AS visits, coalesce(n.checked_ms, p.fetched_ms) / 1e3 AS checked_at,
  n.changed_ms / 1e3 AS changed_at, n.due_at - (SELECT shift_s FROM crawl) AS next_visit_at,
  l.text AS cut, u.id
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
