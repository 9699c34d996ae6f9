-- Migration 5. Sitemaps and feeds: URLs with flag 16. One that was read has a row in `readings`, is in
-- state 4, and its id in `known` is positive, so that no link queues it again.

CREATE TABLE readings (
  id INTEGER PRIMARY KEY,
  kind TEXT,                            -- NULL: neither a sitemap nor a feed
  status INTEGER NOT NULL,
  fetched_ms INTEGER NOT NULL,          -- Unix milliseconds
  body_bytes INTEGER NOT NULL,
  urls INTEGER NOT NULL,
  error INTEGER REFERENCES texts (id)
) STRICT;

CREATE TABLE hints (  -- what sitemaps say of URLs
  id INTEGER PRIMARY KEY,
  lastmod INTEGER,                      -- Unix seconds
  changefreq TEXT,
  priority REAL
) STRICT;

CREATE VIEW sitemaps AS
SELECT
  o.name || u.path AS url, g.kind, g.status, g.fetched_ms / 1e3 AS fetched_at, g.body_bytes, g.urls,
  t.text AS error, u.depth, ro.name || r.path AS referrer, u.id
FROM readings AS g
JOIN urls AS u ON u.id = g.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN texts AS t ON t.id = g.error
LEFT JOIN urls AS r ON r.id = u.referrer
LEFT JOIN origins AS ro ON ro.id = r.origin
WHERE u.flags & 16;

CREATE VIEW listings AS
SELECT o.name || u.path AS url, l.lastmod * 1.0 AS lastmod_at, l.changefreq, l.priority, u.id
FROM hints AS l
JOIN urls AS u ON u.id = l.id
JOIN origins AS o ON o.id = u.origin;
