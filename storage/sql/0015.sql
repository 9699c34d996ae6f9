-- From version 14 to 15: what pages declare about their use, and rests that depend on no clock.

ALTER TABLE plans ADD COLUMN declared TEXT;

-- What is stored of robots.txt for each registrable domain.

ALTER TABLE bodies ADD COLUMN domain TEXT;
ALTER TABLE bodies ADD COLUMN packed_bytes INTEGER;
CREATE INDEX bodies_by_domain ON bodies (domain, packed_bytes) WHERE domain IS NOT NULL;

ALTER TABLE crawl ADD COLUMN distrusted INTEGER NOT NULL DEFAULT -1;

ALTER TABLE slots ADD COLUMN rest_s REAL NOT NULL DEFAULT 0.0;
ALTER TABLE slots ADD COLUMN backoff_s REAL;
ALTER TABLE slots ADD COLUMN rested_s REAL;
ALTER TABLE slots ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE slots ADD COLUMN boot INTEGER;
ALTER TABLE slots ADD COLUMN uptime_s REAL;
ALTER TABLE slots ADD COLUMN unproven INTEGER NOT NULL DEFAULT 0;

-- What a host still had to rest is not known more exactly: it rests as long again.
UPDATE slots SET
  rest_s = max(next_at - coalesce(ended_at, next_at), 0.0),
  backoff_s = max(backoff_until - coalesce(ended_at, backoff_until), 0.0),
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
