-- From version 3 to 4: what pages declare about their use, rests that depend on no clock, and what shows
-- that a database went back in time.

ALTER TABLE plans ADD COLUMN declared text COLLATE "C";

-- What is stored of robots.txt for each registrable domain.

ALTER TABLE bodies ADD COLUMN domain text COLLATE "C";
ALTER TABLE bodies ADD COLUMN packed_bytes bigint;
CREATE INDEX bodies_by_domain ON bodies (domain, packed_bytes) WHERE domain IS NOT NULL;

-- What holds a worker.
ALTER TABLE sessions ADD COLUMN held text COLLATE "C" NOT NULL DEFAULT '[]';

CREATE SEQUENCE ticks;

ALTER TABLE crawl ADD COLUMN distrusted bigint NOT NULL DEFAULT -1;
ALTER TABLE crawl ADD COLUMN returns bigint NOT NULL DEFAULT 0;
ALTER TABLE crawl ADD COLUMN settled bigint NOT NULL DEFAULT 0;
ALTER TABLE crawl ADD COLUMN returned_at double precision;
ALTER TABLE crawl ADD COLUMN server text COLLATE "C";
ALTER TABLE crawl ADD COLUMN fingerprint text COLLATE "C";

ALTER TABLE sessions ADD COLUMN last_at double precision;

ALTER TABLE totals ADD COLUMN commits bigint NOT NULL DEFAULT 0;

ALTER TABLE slots ADD COLUMN rest_s double precision NOT NULL DEFAULT 0.0;
ALTER TABLE slots ADD COLUMN backoff_s double precision;
ALTER TABLE slots ADD COLUMN rested_s double precision;
ALTER TABLE slots ADD COLUMN stamp bigint NOT NULL DEFAULT 0;
ALTER TABLE slots ADD COLUMN boot bigint;
ALTER TABLE slots ADD COLUMN uptime_s double precision;
ALTER TABLE slots ADD COLUMN unproven bigint NOT NULL DEFAULT 0;

-- What a host still had to rest is not known more exactly: it rests as long again.
UPDATE slots SET
  rest_s = greatest(next_at - coalesce(ended_at, next_at), 0.0),
  backoff_s = greatest(backoff_until - coalesce(ended_at, backoff_until), 0.0),
  rested_s = CASE WHEN ended_at IS NOT NULL THEN 0.0 END;

DROP VIEW hosts;

CREATE VIEW hosts AS
SELECT
  name AS host, queued, visited, blocked, failed, body_bytes, delay_s, delay_source,
  next_at - (SELECT shift_s FROM crawl) AS next_at, paused,
  backoff_until - (SELECT shift_s FROM crawl) AS backoff_until,
  contacts, smallest_rest_s, peak_concurrency, breaches, slow_s, latency_s, connect_failures,
  backoff_status, unproven, id
FROM slots;

UPDATE crawl SET version = 4;
