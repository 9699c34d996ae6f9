-- Migration 6. What pages say of themselves besides: their canonical URL, a hash of their body, signals
-- of use. And, where the config asks for it, every link of every page.

-- canonical: a row of urls; body_hash: 64 bits of blake2b.
ALTER TABLE pages ADD COLUMN canonical INTEGER;
ALTER TABLE pages ADD COLUMN body_hash INTEGER;
ALTER TABLE pages ADD COLUMN usage INTEGER REFERENCES texts (id);

DROP VIEW visited;

CREATE VIEW visited AS
SELECT
  o.name || u.path AS url, p.status, p.fetched_ms / 1e3 AS fetched_at, t.text AS content_type,
  p.body_bytes, p.elapsed_us / 1e6 AS elapsed_s, u.depth, ro.name || r.path AS referrer,
  xo.name || x.path AS redirect_url, p.title, p.directives & 1 AS indexable,
  p.directives >> 1 & 1 AS followable, p.directives >> 2 & 1 AS archivable,
  co.name || c.path AS canonical_url, iif(p.body_hash IS NULL, NULL, printf('%016x', p.body_hash)) AS body_hash,
  s.text AS usage, u.id
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
LEFT JOIN texts AS s ON s.id = p.usage;

CREATE TABLE edges (  -- of visited pages; in place of a target's text its row in urls
  source INTEGER NOT NULL,
  target INTEGER NOT NULL,
  anchor TEXT,
  rel INTEGER,                          -- a row of storage.base.Rel, by its place from 1
  PRIMARY KEY (source, target)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_by_target ON edges (target);

CREATE VIEW links AS
SELECT
  so.name || s.path AS source, xo.name || x.path AS target, e.anchor,
  CASE e.rel WHEN 1 THEN 'nofollow' WHEN 2 THEN 'canonical' WHEN 3 THEN 'redirect'
    WHEN 4 THEN 'requisite' END AS rel,
  e.source AS id, e.target AS target_id
FROM edges AS e
JOIN urls AS s ON s.id = e.source
JOIN origins AS so ON so.id = s.origin
JOIN urls AS x ON x.id = e.target
JOIN origins AS xo ON xo.id = x.origin;
