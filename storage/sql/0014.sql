-- From version 13 to 14: why a host backs off, the history of the crawl,
-- and the copies of robots.txt before the present ones.

ALTER TABLE slots ADD COLUMN backoff_status INTEGER;

DROP VIEW hosts;

CREATE VIEW hosts AS
SELECT
  name AS host, queued, visited, blocked, failed, body_bytes, delay_s, delay_source,
  next_at - (SELECT shift_s FROM crawl) AS next_at, paused,
  backoff_until - (SELECT shift_s FROM crawl) AS backoff_until,
  contacts, smallest_rest_s, peak_concurrency, breaches, slow_s, latency_s, connect_failures,
  backoff_status, id
FROM slots;

CREATE TABLE history (  -- what was counted in a minute, later folded into hours: storage/history.py
  step_s INTEGER NOT NULL,
  at INTEGER NOT NULL,                  -- its begin, Unix seconds
  session INTEGER NOT NULL,             -- that counted it, or folded it
  observed_s REAL NOT NULL,             -- how long a crawl ran in it
  success INTEGER NOT NULL,
  redirects INTEGER NOT NULL,
  client_errors INTEGER NOT NULL,
  server_errors INTEGER NOT NULL,
  unanswered INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  given_up INTEGER NOT NULL,
  queued INTEGER NOT NULL,              -- at its end
  latency TEXT NOT NULL,                -- JSON: counts by bucket of storage/log_histogram.py
  lateness TEXT NOT NULL,
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

CREATE TABLE earlier_copies (  -- of robots.txt: the body that applied before that in copies
  origin INTEGER PRIMARY KEY,
  body INTEGER NOT NULL REFERENCES bodies (id),
  copy_at REAL,                         -- as in copies
  replaced_at REAL NOT NULL             -- when another answer came: Unix seconds
) STRICT;

CREATE INDEX earlier_copies_by_body ON earlier_copies (body);
