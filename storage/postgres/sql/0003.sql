-- From version 2 to 3: why a host backs off, the history of the crawl,
-- and the copies of robots.txt before the present ones.

ALTER TABLE slots ADD COLUMN backoff_status bigint;

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
  step_s bigint NOT NULL,
  at bigint NOT NULL,                   -- its begin, Unix seconds
  session bigint NOT NULL,              -- that counted it, or folded it
  observed_s double precision NOT NULL, -- how long a crawl ran in it
  success bigint NOT NULL,
  redirects bigint NOT NULL,
  client_errors bigint NOT NULL,
  server_errors bigint NOT NULL,
  unanswered bigint NOT NULL,
  failed bigint NOT NULL,
  given_up bigint NOT NULL,
  queued bigint NOT NULL,               -- at its end
  latency text COLLATE "C" NOT NULL,    -- JSON: counts by bucket of storage/log_histogram.py
  lateness text COLLATE "C" NOT NULL,
  PRIMARY KEY (step_s, at, session)
);

CREATE TABLE marks (  -- what happened to the crawl: storage.history.Mark
  session bigint NOT NULL,
  number bigint NOT NULL,
  at double precision NOT NULL,
  until double precision NOT NULL,
  lasting bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  reason text COLLATE "C" NOT NULL,
  sentence text COLLATE "C" NOT NULL,
  actor text COLLATE "C" NOT NULL,
  via text COLLATE "C" NOT NULL,
  PRIMARY KEY (session, number)
);

CREATE INDEX marks_by_time ON marks (at);

CREATE TABLE earlier_copies (  -- of robots.txt: the body that applied before that in copies
  origin bigint PRIMARY KEY,
  body bigint NOT NULL REFERENCES bodies (id),
  copy_at double precision,             -- as in copies
  replaced_at double precision NOT NULL -- when another answer came: Unix seconds
);

CREATE INDEX earlier_copies_by_body ON earlier_copies (body);

UPDATE crawl SET version = 3;
