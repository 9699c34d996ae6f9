-- The tables of a new database; storage/sql/views.sql has its views. Every change to it after the
-- first release takes a migration, and a new version: see storage/sqlite/schema.py.

-- ---------------------------------------------------------------- the crawl and its sessions

CREATE TABLE crawl (  -- one row
  id INTEGER PRIMARY KEY CHECK (id = 1),
  session INTEGER NOT NULL,     -- the newest
  last_at REAL NOT NULL,        -- the store's time when last written: it never runs backwards
  shift_s REAL NOT NULL,        -- how far it is ahead of the wall clock
  paused INTEGER NOT NULL DEFAULT 0,
  boot TEXT,                    -- which start of the machine `uptime_s` counts from
  uptime_s REAL,
  distrusted INTEGER NOT NULL DEFAULT -1  -- stamps of slots up to this one prove nothing
) STRICT;

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,               -- as in crawl
  name TEXT NOT NULL,
  began_at REAL NOT NULL,               -- Unix seconds
  ended_at REAL                         -- NULL: it is running, or its process died
) STRICT;

CREATE TABLE secret (  -- one row: the key of the fingerprints of URLs
  id INTEGER PRIMARY KEY CHECK (id = 1),
  bytes BLOB NOT NULL
) STRICT;

INSERT INTO secret VALUES (1, randomblob(16));

-- ---------------------------------------------------------------- hosts and origins

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
  ring INTEGER NOT NULL DEFAULT 0,      -- contacts ever written to the ring
  ended_at REAL,                        -- when the last contact ended
  pending INTEGER NOT NULL DEFAULT 0,   -- queued > 0
  revisit_at REAL,                      -- when the first of its visited URLs is due again
  backoff_status INTEGER,               -- the status that it backs off after; NULL: not known
  rest_s REAL NOT NULL DEFAULT 0.0,     -- of this and the next two: as of the stamp
  backoff_s REAL,                       -- until the end of its back-off
  rested_s REAL,                        -- since the end of its last contact
  stamp INTEGER NOT NULL DEFAULT 0,     -- when its clock was stored: in which session,
  boot INTEGER,                         -- and the uptime of the machine
  uptime_s REAL,
  unproven INTEGER NOT NULL DEFAULT 0,  -- contacts after one whose end nobody measured
  address TEXT,                         -- with `per = "ip"`: where it was contacted last,
  address_delay_s REAL                  -- and the delay that it asks of the address
) STRICT;

CREATE INDEX slots_at_address ON slots (address) WHERE address IS NOT NULL;

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
  robots_at REAL,                       -- when robots.txt is to be asked for again
  rejudge_at REAL,                      -- since when its URLs are to be judged again
  pending INTEGER NOT NULL DEFAULT 0,   -- queued > 0
  governs INTEGER NOT NULL DEFAULT 0    -- queued + judged + ungoverned > 0
) STRICT;

CREATE INDEX origins_of_slot ON origins (slot);

CREATE INDEX origins_by_hostname ON origins (hostname);

CREATE INDEX origins_to_rejudge ON origins (rejudge_at)
  WHERE rejudge_at IS NOT NULL AND judged + ungoverned > 0;

-- Indexes on flags: a partial index on a counter would be written with every change of it.

CREATE INDEX slots_claimable ON slots (ready_at, served)
  WHERE pending = 1 AND lease IS NULL AND paused = 0;

CREATE INDEX slots_to_revisit ON slots (revisit_at)
  WHERE revisit_at IS NOT NULL AND lease IS NULL AND paused = 0;

CREATE INDEX origins_with_work ON origins (slot) WHERE pending = 1;

CREATE INDEX origins_robots_due ON origins (robots_at) WHERE robots_at IS NOT NULL AND governs = 1;

CREATE TRIGGER slots_pending AFTER UPDATE OF queued ON slots
WHEN new.pending <> (new.queued > 0)
BEGIN
  UPDATE slots SET pending = new.queued > 0 WHERE id = new.id;
END;

CREATE TRIGGER origins_pending AFTER UPDATE OF queued ON origins
WHEN new.pending <> (new.queued > 0)
BEGIN
  UPDATE origins SET pending = new.queued > 0 WHERE id = new.id;
END;

CREATE TRIGGER origins_governs AFTER UPDATE OF queued, judged, ungoverned ON origins
WHEN new.governs <> (new.queued + new.judged + new.ungoverned > 0)
BEGIN
  UPDATE origins SET governs = new.queued + new.judged + new.ungoverned > 0 WHERE id = new.id;
END;

CREATE TABLE contacts (  -- the newest of every host
  slot INTEGER NOT NULL,
  place INTEGER NOT NULL,               -- in the ring
  start_at REAL NOT NULL,
  end_at REAL NOT NULL,
  kind TEXT NOT NULL,
  status INTEGER,
  PRIMARY KEY (slot, place)
) STRICT, WITHOUT ROWID;

-- ---------------------------------------------------------------- URLs

CREATE TABLE urls (
  id INTEGER PRIMARY KEY,
  origin INTEGER NOT NULL,
  path TEXT NOT NULL,                   -- path and query
  state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),  -- storage.store.UrlState; 4: in no view
  depth INTEGER NOT NULL,
  priority REAL NOT NULL,
  turn INTEGER NOT NULL,                -- 0 until it is retried, then grows with every retry
  due_at REAL,                          -- while it waits for its retry
  flags INTEGER NOT NULL,               -- bits: see storage/engine/link_table.py
  referrer INTEGER,                     -- id of the first page that linked to it
  anchor TEXT
) STRICT;

CREATE INDEX urls_queue ON urls (origin, priority DESC, turn, depth)
  WHERE state = 0 AND due_at IS NULL;

CREATE INDEX urls_waiting ON urls (origin, due_at)
  WHERE state = 0 AND due_at IS NOT NULL;

CREATE TABLE known (  -- finds a URL without reading it
  origin INTEGER NOT NULL,
  fingerprint INTEGER NOT NULL,         -- 64 bits, see storage/engine/link_table.py
  id INTEGER NOT NULL,                  -- of the row in urls; negative while its state is 4
  depth INTEGER NOT NULL,               -- never less than in urls: what is deeper changes nothing
  PRIMARY KEY (origin, fingerprint)
) STRICT, WITHOUT ROWID;

CREATE TABLE queries (  -- URLs with a query, counted by path
  origin INTEGER NOT NULL,
  path INTEGER NOT NULL,                -- 8 bytes of its hash
  count INTEGER NOT NULL,
  PRIMARY KEY (origin, path)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE bodies (  -- of robots.txt: those of copies, and those that verdicts were made by
  id INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,            -- blake2b, 16 bytes
  size INTEGER NOT NULL,
  packed BLOB NOT NULL,                 -- zlib
  domain TEXT,                          -- the registrable domain that a large one counts for,
  packed_bytes INTEGER                  -- and as how much
) STRICT;

CREATE INDEX bodies_by_domain ON bodies (domain, packed_bytes) WHERE domain IS NOT NULL;

CREATE TABLE verdicts (
  id INTEGER PRIMARY KEY,
  reason TEXT NOT NULL,
  dialect TEXT NOT NULL,
  rule TEXT,
  line INTEGER,
  robots_url TEXT NOT NULL,
  body INTEGER REFERENCES bodies (id)   -- the copy it was made by
) STRICT;

CREATE INDEX verdicts_by_body ON verdicts (body) WHERE body IS NOT NULL;

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

CREATE TABLE copies (  -- of robots.txt: policies.robots_state.RobotsState, field by field
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

CREATE INDEX copies_by_body ON copies (body) WHERE body IS NOT NULL;

CREATE TABLE earlier_copies (  -- of robots.txt: the body that applied before that in copies
  origin INTEGER PRIMARY KEY,
  body INTEGER NOT NULL REFERENCES bodies (id),
  copy_at REAL,                         -- as in copies
  replaced_at REAL NOT NULL             -- when another answer came: Unix seconds
) STRICT;

CREATE INDEX earlier_copies_by_body ON earlier_copies (body);

CREATE TABLE skips (
  reason TEXT PRIMARY KEY,
  count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE data (  -- that was added with a URL
  id INTEGER PRIMARY KEY,
  json TEXT NOT NULL
) STRICT;

CREATE TABLE edges (  -- of visited pages; in place of a target's text its row in urls
  source INTEGER NOT NULL,
  target INTEGER NOT NULL,
  anchor TEXT,
  rel INTEGER,                          -- a row of storage.store.Rel, by its place from 1
  PRIMARY KEY (source, target)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_by_target ON edges (target);

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
  last_modified TEXT,
  declared TEXT                         -- what was said of its use: policies/declarations.py
) STRICT;

CREATE INDEX plans_of_slot ON plans (slot, due_at);

CREATE TABLE kinds (  -- what pages share
  id INTEGER PRIMARY KEY,
  status INTEGER NOT NULL,
  content_type INTEGER REFERENCES texts (id),
  directives INTEGER NOT NULL,          -- 1 indexable, 2 followable, 4 archivable; from 8: storage.store.Looked
  usage INTEGER REFERENCES texts (id),
  cut INTEGER REFERENCES texts (id)     -- why parts of the page were not read
) STRICT;

CREATE TABLE pages (  -- visited
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL REFERENCES kinds (id),
  fetched_ms INTEGER NOT NULL,          -- Unix milliseconds
  body_bytes INTEGER NOT NULL,
  elapsed_us INTEGER NOT NULL,          -- microseconds
  title TEXT,
  canonical INTEGER,                    -- a row of urls
  body_hash INTEGER                     -- 64 bits of blake2b
) STRICT;

CREATE TABLE chains (  -- blocked or freed URLs; what redirects to them is to be treated likewise
  root INTEGER PRIMARY KEY,
  after INTEGER NOT NULL                -- of those redirects: up to this id it has been
) STRICT;

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

CREATE TABLE history (  -- what was counted in a minute, later folded into hours: storage/history.py
  step_s INTEGER NOT NULL,
  at INTEGER NOT NULL,                  -- its begin, Unix seconds
  session INTEGER NOT NULL,             -- that counted it, or folded it
  observed_s REAL NOT NULL,             -- how long a crawl ran in it
  queued INTEGER NOT NULL,              -- at its end
  counts TEXT NOT NULL,                 -- JSON: increases of counters by name
  durations TEXT NOT NULL,              -- JSON: the same of histograms: log_histogram.py
  PRIMARY KEY (step_s, at, session)
) STRICT, WITHOUT ROWID;

CREATE TABLE marks (  -- what happened to the crawl: storage.history.Mark
  session INTEGER NOT NULL,
  number INTEGER NOT NULL,
  at REAL NOT NULL,
  until REAL NOT NULL,
  lasting INTEGER NOT NULL,
  kind TEXT NOT NULL,
  reason TEXT NOT NULL,
  sentence TEXT NOT NULL,
  actor TEXT NOT NULL,
  via TEXT NOT NULL,
  PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX marks_by_time ON marks (at);
