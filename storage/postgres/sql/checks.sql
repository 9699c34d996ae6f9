-- Checks of PostgreSQL alone, and those of fingerprints, which are in the table of URLs; see
-- storage/sql/checks.sql.

-- name: totals
SELECT count(*), 'sums of the sessions are not those of the hosts'
FROM (
  SELECT
    sum(queued) AS queued, sum(visited) AS visited, sum(blocked) AS blocked, sum(failed) AS failed,
    sum(body_bytes) AS body_bytes, sum(hosts) AS hosts
  FROM totals
) AS t, (
  SELECT
    sum(queued) AS queued, sum(visited) AS visited, sum(blocked) AS blocked, sum(failed) AS failed,
    sum(body_bytes) AS body_bytes, count(*) AS hosts
  FROM slots
) AS s,
LATERAL (
  VALUES
    (t.queued, s.queued), (t.visited, s.visited), (t.blocked, s.blocked), (t.failed, s.failed),
    (t.body_bytes, s.body_bytes), (t.hosts, s.hosts)
) AS v (kept, counted)
WHERE coalesce(v.kept, 0) <> coalesce(v.counted, 0);

-- name: fingerprints_wrong
SELECT count(*), 'fingerprints lead to the wrong URL'
FROM urls AS u
LEFT JOIN readings AS g ON g.id = u.id
WHERE u.fingerprint IS NOT NULL AND CASE WHEN u.hidden THEN u.state <> 4
  ELSE u.state = 4 AND (g.id IS NULL OR u.flags & 16 = 0) END;

-- name: urls_without_fingerprint
SELECT count(*), 'URLs cannot be found by their fingerprint' FROM urls WHERE fingerprint IS NULL;
