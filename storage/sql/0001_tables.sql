-- Migration 1. A URL is its origin and a path; the text of the origin is kept once.
-- Counters of slots and origins move in the transaction that moves the URLs.

CREATE TABLE crawl (  -- one row
  id INTEGER PRIMARY KEY CHECK (id = 1),
  session INTEGER NOT NULL,     -- the newest
  last_at REAL NOT NULL,        -- the store's time, as last told: it never runs backwards
  shift_s REAL NOT NULL         -- how far it is ahead of the wall clock
) STRICT;

CREATE TABLE slots (  -- hosts, as they are leased
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
  visited INTEGER NOT NULL DEFAULT 0 CHECK (visited >= 0),
  blocked INTEGER NOT NULL DEFAULT 0 CHECK (blocked >= 0),
  failed INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
  body_bytes INTEGER NOT NULL DEFAULT 0 CHECK (body_bytes >= 0),
  lease INTEGER,                        -- the session that holds it
  epoch INTEGER NOT NULL DEFAULT 0,
  clean INTEGER NOT NULL DEFAULT 1,     -- released by its last holder
  served INTEGER NOT NULL DEFAULT 0,    -- grows with every lease given
  ready_at REAL NOT NULL,               -- while free: when one of its URLs can move
  next_at REAL NOT NULL,
  backoff_until REAL,
  paused INTEGER NOT NULL DEFAULT 0,
  slow_s REAL,
  delay_s REAL NOT NULL DEFAULT 0.0,
  delay_source TEXT NOT NULL DEFAULT '',
  latency_s REAL,
  backoff_level INTEGER NOT NULL DEFAULT 0,
  denials INTEGER NOT NULL DEFAULT 0,
  connect_failures INTEGER NOT NULL DEFAULT 0,
  contacts INTEGER NOT NULL DEFAULT 0,
  smallest_rest_s REAL,
  peak_concurrency INTEGER NOT NULL DEFAULT 0,
  breaches INTEGER NOT NULL DEFAULT 0,
  ring INTEGER NOT NULL DEFAULT 0       -- contacts ever written to the ring
) STRICT;

CREATE INDEX slots_claimable ON slots (ready_at, served)
  WHERE queued > 0 AND lease IS NULL AND paused = 0;
CREATE INDEX slots_leased ON slots (lease) WHERE lease IS NOT NULL;

CREATE TABLE origins (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,            -- scheme, host and port
  hostname TEXT NOT NULL,
  slot INTEGER REFERENCES slots (id),   -- NULL: met only as the target of a redirect
  queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
  visited INTEGER NOT NULL DEFAULT 0 CHECK (visited >= 0),
  blocked INTEGER NOT NULL DEFAULT 0 CHECK (blocked >= 0),
  failed INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
  body_bytes INTEGER NOT NULL DEFAULT 0 CHECK (body_bytes >= 0),
  judged INTEGER NOT NULL DEFAULT 0 CHECK (judged >= 0),          -- blocked by its own robots.txt
  ungoverned INTEGER NOT NULL DEFAULT 0 CHECK (ungoverned >= 0),  -- fetched for lack of an answer
  robots_at REAL,                       -- when robots.txt is to be asked for again (wall clock)
  rejudge_at REAL                       -- since when what was judged is to be judged again
) STRICT;

CREATE INDEX origins_of_slot ON origins (slot);
CREATE INDEX origins_with_work ON origins (slot) WHERE queued > 0;
CREATE INDEX origins_by_hostname ON origins (hostname);
CREATE INDEX origins_robots_due ON origins (robots_at)
  WHERE robots_at IS NOT NULL AND queued + judged + ungoverned > 0;

CREATE INDEX origins_to_rejudge ON origins (rejudge_at)
  WHERE rejudge_at IS NOT NULL AND judged + ungoverned > 0;

CREATE TABLE urls (
  id INTEGER PRIMARY KEY,
  origin INTEGER NOT NULL,
  path TEXT NOT NULL,                   -- path and query
  state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),  -- storage.base.State; 4: in no view
  depth INTEGER NOT NULL,
  priority REAL NOT NULL,
  turn INTEGER NOT NULL,                -- 0 until it is retried, then grows with every retry
  due_at REAL,                          -- while it waits for its retry
  flags INTEGER NOT NULL,               -- 1 seed, 2 fetched before, 4 has a row in tries
  referrer INTEGER,                     -- id of the first page that linked to it
  anchor TEXT
) STRICT;

-- Keyed by origin, so that the links of one host meet the same few pages of the tree.
CREATE TABLE known (
  origin INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  id INTEGER NOT NULL,                  -- of the row in urls; negative while its state is 4
  depth INTEGER NOT NULL,               -- never less than in urls: what is deeper changes nothing
  PRIMARY KEY (origin, fingerprint)
) STRICT, WITHOUT ROWID;

CREATE INDEX urls_queue ON urls (origin, priority DESC, turn, depth)
  WHERE state = 0 AND due_at IS NULL;
CREATE INDEX urls_waiting ON urls (origin, due_at)
  WHERE state = 0 AND due_at IS NOT NULL;

CREATE TABLE seeds (id INTEGER PRIMARY KEY) STRICT;

CREATE TABLE texts (  -- content types and error sentences, once each
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE tries (  -- of queued URLs that were tried
  id INTEGER PRIMARY KEY,
  attempts INTEGER NOT NULL,
  refusals INTEGER NOT NULL,
  error INTEGER NOT NULL REFERENCES texts (id)
) STRICT;

CREATE TABLE pages (  -- visited
  id INTEGER PRIMARY KEY,
  status INTEGER NOT NULL,
  fetched_at REAL NOT NULL,
  content_type INTEGER REFERENCES texts (id),
  body_bytes INTEGER NOT NULL,
  elapsed_s REAL NOT NULL,
  title TEXT,
  indexable INTEGER NOT NULL,
  followable INTEGER NOT NULL,
  archivable INTEGER NOT NULL
) STRICT;

CREATE TABLE ungoverned (  -- visited while the origin counted as open for lack of an answer
  origin INTEGER NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (origin, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE redirects (  -- of URLs visited, or blocked because of where they lead
  id INTEGER PRIMARY KEY,
  target INTEGER NOT NULL
) STRICT;

CREATE INDEX redirects_by_target ON redirects (target);

CREATE TABLE failures (
  id INTEGER PRIMARY KEY,
  error INTEGER NOT NULL REFERENCES texts (id),
  attempts INTEGER NOT NULL,
  last_at REAL NOT NULL
) STRICT;

CREATE TABLE bodies (  -- of robots.txt, every one that ever counted
  id INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,            -- blake2b, 16 bytes
  size INTEGER NOT NULL,
  packed BLOB NOT NULL                  -- zlib
) STRICT;

CREATE TABLE verdicts (
  id INTEGER PRIMARY KEY,
  reason TEXT NOT NULL,
  dialect TEXT NOT NULL,
  rule TEXT,
  line INTEGER,
  robots_url TEXT NOT NULL,
  body INTEGER REFERENCES bodies (id)   -- the copy it was made by
) STRICT;

CREATE UNIQUE INDEX verdicts_once ON verdicts (
  robots_url, reason, dialect, coalesce(rule, ''), coalesce(line, 0), coalesce(body, 0)
);

CREATE TABLE blocks (
  origin INTEGER NOT NULL,
  id INTEGER NOT NULL,
  verdict INTEGER NOT NULL REFERENCES verdicts (id),
  judged INTEGER NOT NULL,              -- 1: by its own origin's robots.txt, 0: for its target's sake
  blocked_at REAL NOT NULL,
  withdrawn INTEGER NOT NULL,
  PRIMARY KEY (origin, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE copies (  -- of robots.txt: policies.access.Access, field by field
  origin INTEGER PRIMARY KEY,
  status INTEGER,
  body INTEGER REFERENCES bodies (id),
  copy_at REAL,
  etag TEXT,
  last_modified TEXT,
  validators_url TEXT,
  fetched_at REAL,
  expires_at REAL,
  retry_at REAL,
  failures INTEGER NOT NULL,
  unreachable_since REAL,
  gone_since REAL,
  error TEXT,
  truncated INTEGER NOT NULL
) STRICT;

CREATE TABLE contacts (  -- the newest of every host
  slot INTEGER NOT NULL,
  place INTEGER NOT NULL,               -- in the ring
  start_at REAL NOT NULL,
  end_at REAL NOT NULL,
  kind TEXT NOT NULL,
  status INTEGER,
  PRIMARY KEY (slot, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE queries (  -- URLs with a query, counted by path
  origin INTEGER NOT NULL,
  path INTEGER NOT NULL,                -- 8 bytes of its hash
  count INTEGER NOT NULL,
  PRIMARY KEY (origin, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE skips (
  reason TEXT PRIMARY KEY,
  count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- ------------------------------------------------------------ the views that are the contract

CREATE VIEW visited AS
SELECT
  o.name || u.path AS url, p.status, p.fetched_at, t.text AS content_type, p.body_bytes,
  p.elapsed_s, u.depth, ro.name || r.path AS referrer, xo.name || x.path AS redirect_url, p.title,
  p.indexable, p.followable, p.archivable, u.id
FROM pages AS p
JOIN urls AS u ON u.id = p.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN texts AS t ON t.id = p.content_type
LEFT JOIN urls AS r ON r.id = u.referrer
LEFT JOIN origins AS ro ON ro.id = r.origin
LEFT JOIN redirects AS d ON d.id = u.id
LEFT JOIN urls AS x ON x.id = d.target
LEFT JOIN origins AS xo ON xo.id = x.origin;

CREATE VIEW blocked AS
SELECT
  o.name || u.path AS url, v.reason, v.dialect, v.rule, v.line, v.robots_url, b.blocked_at,
  b.withdrawn, u.anchor, ro.name || r.path AS referrer, u.id
FROM blocks AS b
JOIN urls AS u ON u.id = b.id AND u.origin = b.origin
JOIN origins AS o ON o.id = u.origin
JOIN verdicts AS v ON v.id = b.verdict
LEFT JOIN urls AS r ON r.id = u.referrer
LEFT JOIN origins AS ro ON ro.id = r.origin;

CREATE VIEW failed AS
SELECT o.name || u.path AS url, t.text AS error, f.attempts, f.last_at, u.id
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

CREATE VIEW skipped AS SELECT reason, count FROM skips;

CREATE VIEW hosts AS
SELECT
  name AS host, queued, visited, blocked, failed, body_bytes, delay_s, delay_source,
  next_at - (SELECT shift_s FROM crawl) AS next_at, paused,
  backoff_until - (SELECT shift_s FROM crawl) AS backoff_until,
  contacts, smallest_rest_s, peak_concurrency, breaches, slow_s, latency_s, connect_failures, id
FROM slots;

CREATE VIEW robots AS
SELECT
  o.name AS origin, s.name AS host,
  CASE
    WHEN c.body IS NOT NULL THEN iif(c.failures > 0, 'stale', 'rules')
    WHEN c.failures > 0 THEN 'unreachable'
    WHEN c.status IS NULL THEN 'unknown'
    ELSE 'absent'
  END AS state,
  c.status, c.fetched_at, c.expires_at, c.retry_at, b.size AS body_bytes, c.failures, c.error,
  c.truncated, c.origin AS id
FROM copies AS c
JOIN origins AS o ON o.id = c.origin
JOIN slots AS s ON s.id = o.slot
LEFT JOIN bodies AS b ON b.id = c.body;
