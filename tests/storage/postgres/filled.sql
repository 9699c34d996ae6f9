-- Fills a new database with SLOTS hosts, and rows in every table. `courtly db check` finds nothing
-- wrong with it. Host h has one origin and 42 URLs, those with the numbers n where n % SLOTS + 1 = h.
-- Their n / SLOTS counts from 1 to 42, and says what became of them: see `state` below. An id is a
-- number * 256 + the shard of the host.

INSERT INTO sessions (id, name, began_at, ended_at)
SELECT n, 'worker ' || n, n, CASE WHEN n < 8 THEN n END FROM generate_series(1, 10) AS n;

UPDATE crawl SET session = 10, last_at = 1e6, shift_s = 0.5;

-- One host in fifty is leased, by sessions 8 to 10; one in twenty is paused.
INSERT INTO slots (
  id, name, queued, visited, blocked, failed, body_bytes, lease, ready_at, next_at, ended_at,
  paused, served, delay_s, delay_source, smallest_rest_s, latency_s, slow_s, backoff_until, ring
)
SELECT
  n * 256 + n % 256, 'h' || n || '.test', 20, 12, 4, 4, 1200,
  CASE WHEN n % 50 = 0 THEN 8 + n % 3 END, n, n, n - 1, (n % 20 = 5)::integer, n, 1.0, 'config',
  CASE WHEN n % 3 > 0 THEN n / 7.0 END, CASE WHEN n % 3 > 1 THEN 0.25 END,
  CASE WHEN n % 20 = 6 THEN 2.0 END, CASE WHEN n % 4 = 0 THEN n + 0.25 END, 10
FROM generate_series(1, SLOTS) AS n;

INSERT INTO origins (
  id, name, hostname, slot, queued, visited, blocked, failed, body_bytes, judged, ungoverned,
  robots_at, rejudge_at
)
SELECT
  s.id, 'https://' || s.name, s.name, s.id, 20, 12, 4, 4, 1200, 4, 4, s.ready_at,
  CASE WHEN s.id % 100 = 0 THEN s.ready_at END
FROM slots AS s;

INSERT INTO urls (
  id, origin, path, fingerprint, state, hidden, depth, priority, turn, due_at, flags, referrer,
  anchor
)
SELECT
  n * 256 + o.id % 256, o.id, '/page/' || n, hashtextextended('/page/' || n, 0), state, k = 42, n % 7, n % 3 / 2.0,
  CASE WHEN kind = 1 AND k < 41 THEN n ELSE 0 END, CASE WHEN kind = 1 AND k < 41 THEN n END,
  CASE WHEN k = 41 THEN 16 WHEN k = 42 OR kind = 1 THEN 4 WHEN kind = 2 THEN 32
    WHEN kind = 3 THEN 128 ELSE 0 END,
  CASE WHEN k > 1 THEN (n - SLOTS) * 256 + o.id % 256 END, CASE WHEN n % 3 > 0 THEN 'a link' END
FROM generate_series(SLOTS, 43 * SLOTS - 1) AS n
CROSS JOIN LATERAL (SELECT n / SLOTS AS k, n / SLOTS % 10 AS kind) AS places
CROSS JOIN LATERAL (
  SELECT CASE WHEN k > 40 THEN 4 WHEN kind < 5 THEN 0 WHEN kind < 8 THEN 1 ELSE kind - 6 END AS state
) AS states
JOIN origins AS o ON o.id = (n % SLOTS + 1) * 256 + (n % SLOTS + 1) % 256;

INSERT INTO queries SELECT id, id, 3 FROM origins;

INSERT INTO seeds SELECT id FROM urls WHERE id / 256 < SLOTS + 50;

INSERT INTO texts
SELECT n, CASE n WHEN 1 THEN 'text/html' WHEN 2 THEN 'Text/HTML; charset=x' ELSE 'text ' || n END
FROM generate_series(1, SLOTS) AS n;

INSERT INTO tries SELECT id, 1, 0, id % SLOTS + 1 FROM urls WHERE flags & 4 <> 0;

INSERT INTO hints
SELECT id, CASE WHEN id % 3 > 0 THEN id / 256 END, 0.25, 'daily' FROM urls WHERE flags & 32 <> 0;

INSERT INTO data SELECT id, '{"number":' || id || '}' FROM urls WHERE flags & 128 <> 0;

INSERT INTO kinds (status, directives, content_type, usage, cut)
SELECT n, n % 128, n % 4 + 1, CASE WHEN n % 5 = 0 THEN 3 END, CASE WHEN n % 9 = 0 THEN 4 END
FROM generate_series(200, 599) AS n;

INSERT INTO pages
SELECT
  id, id / 256 % 400 + 1, 1700000000000 + id, 100, id / 3, CASE WHEN id % 5 = 0 THEN id END,
  CASE WHEN id % 7 > 0 THEN hashtextextended((id / 256 / 5)::text, 1) END,
  CASE WHEN id % 11 > 0 THEN 'a title' END
FROM urls WHERE state = 1;

INSERT INTO plans
SELECT p.id, u.origin, 1e6 + p.id / 3.0, 3600.5, p.fetched_ms + 1, p.fetched_ms, 2, 0, 'etag'
FROM pages AS p JOIN urls AS u ON u.id = p.id WHERE p.id % 3 = 0;

UPDATE slots SET revisit_at = (SELECT min(n.due_at) FROM plans AS n WHERE n.slot = slots.id);

INSERT INTO ungoverned SELECT origin, id FROM urls WHERE id / 256 / SLOTS % 10 = 5 AND state = 1;

INSERT INTO redirects SELECT id, referrer FROM urls WHERE state = 1 AND id / 256 % 3 = 0;

INSERT INTO edges
SELECT p.id, u.referrer, CASE WHEN p.id % 10 > 0 THEN p.id % 10 END, 'a link'
FROM pages AS p JOIN urls AS u ON u.id = p.id;

INSERT INTO edges SELECT p.id, s.id, NULL, NULL FROM pages AS p CROSS JOIN (
  SELECT id FROM seeds ORDER BY id LIMIT 2
) AS s;

INSERT INTO hrefs SELECT id, id % 2, 'http://' || id % 4, 'no host' FROM pages;

INSERT INTO pointers
SELECT p.id, 0, u.referrer, CASE WHEN p.id % 2 = 0 THEN 'top' ELSE 'a%20b' END, 'a b'
FROM pages AS p JOIN urls AS u ON u.id = p.id;

INSERT INTO elements SELECT id, 'top' FROM pages WHERE id % 3 = 0;

INSERT INTO elements SELECT id, 'a b' FROM pages WHERE id % 3 = 1;

INSERT INTO failures SELECT id, id % SLOTS + 1, 3, id / 3.0 FROM urls WHERE state = 3;

INSERT INTO bodies (size, hash, packed)
SELECT 10, decode(md5(n::text), 'hex'), decode(md5(n::text), 'hex')
FROM generate_series(1, SLOTS) AS n;

-- Of a host's four blocked URLs, some have another verdict by the same file.
INSERT INTO verdicts (line, body, reason, dialect, rule, robots_url)
SELECT
  CASE WHEN id % 2 = 0 THEN nullif(id % 3, 0) ELSE 7 END, CASE WHEN id > 3 THEN id END, 'robots',
  'rfc9309', CASE WHEN id % 2 = 0 OR id % 3 > 0 THEN 'Disallow: /' END,
  'https://h' || id % 4 || '.test/robots.txt'
FROM bodies;

INSERT INTO blocks
SELECT origin, id, (id / 256 % SLOTS + id / 256 / SLOTS * 8) % SLOTS + 1, id / 3.0, 1, id % 2
FROM urls WHERE state = 2;

INSERT INTO copies (
  origin, body, status, failures, truncated, fetched_at, expires_at, retry_at, error
)
SELECT
  o.id, CASE WHEN n % 3 > 0 THEN n END, CASE WHEN n % 4 > 0 THEN 200 END, n % 5, n % 2, n / 3.0,
  n + 86400.0, n, CASE WHEN n % 5 > 0 THEN 'timeout: too slow' END
FROM generate_series(1, SLOTS) AS n JOIN origins AS o ON o.id = n * 256 + n % 256;

INSERT INTO contacts SELECT s.id, n, n, n + 0.5, 200, 'page'
FROM slots AS s, generate_series(0, 9) AS n;

INSERT INTO readings
SELECT id, 200, 1700000000000 + id, 10, 10, CASE WHEN id % 2 = 0 THEN 5 END, 'sitemap'
FROM urls WHERE flags & 16 <> 0;

INSERT INTO earlier_copies (origin, body, copy_at, replaced_at)
SELECT origin, body, fetched_at, fetched_at + 1 FROM copies WHERE body IS NOT NULL AND origin % 2 = 0;

INSERT INTO history
SELECT 60, n / 10 * 60, n % 10 + 1, 60, 20, '{"success": 9, "unanswered": 1}',
  '{"latency": {"3": 10}, "lateness": {"1": 10}}'
FROM generate_series(0, 28799) AS n;

INSERT INTO marks
SELECT n % 10 + 1, n / 10, n * 60, n * 60, 0, 'reload', '', '', 'somebody', 'page'
FROM generate_series(0, 999) AS n;

INSERT INTO chains SELECT id, 0 FROM urls WHERE state = 2 AND id % 100 = 1;

INSERT INTO orders (session, at, verb, body)
SELECT 1, n, 'pause', '{}' FROM generate_series(1, 1000) AS n;

INSERT INTO skips SELECT n, n, 'scope ' || n % 3 FROM generate_series(1, 10) AS n;

INSERT INTO totals
SELECT n, sum(queued), sum(visited), sum(blocked), sum(failed), count(*), sum(body_bytes)
FROM generate_series(1, 10) AS n LEFT JOIN slots ON id / 256 % 10 + 1 = n GROUP BY n;

ANALYZE;
