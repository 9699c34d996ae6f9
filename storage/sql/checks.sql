-- What `courtly db check` counts: how many rows break a rule of the schema (0 if it is sound), and
-- what that means, in words that follow the number. Each reads a table from end to end.

-- name: visited_without_page
SELECT count(*), 'URLs are visited without a page, or have a page without being visited'
FROM urls AS u
LEFT JOIN pages AS p ON p.id = u.id
WHERE (u.state = 1) <> (p.id IS NOT NULL);

-- name: pages_without_url
SELECT count(*), 'pages belong to no URL'
FROM pages AS p
LEFT JOIN urls AS u ON u.id = p.id
WHERE u.id IS NULL;

-- name: blocked_without_verdict
SELECT count(*), 'URLs are blocked without a verdict, or have a verdict without being blocked'
FROM urls AS u
LEFT JOIN blocks AS b ON b.origin = u.origin AND b.id = u.id
WHERE (u.state = 2) <> (b.id IS NOT NULL);

-- name: verdicts_without_url
SELECT count(*), 'verdicts belong to no URL'
FROM blocks AS b
LEFT JOIN urls AS u ON u.id = b.id AND u.origin = b.origin
WHERE u.id IS NULL;

-- name: failed_without_error
SELECT count(*), 'URLs failed without an error, or have an error without having failed'
FROM urls AS u
LEFT JOIN failures AS f ON f.id = u.id
WHERE (u.state = 3) <> (f.id IS NOT NULL);

-- name: failures_without_url
SELECT count(*), 'failures belong to no URL'
FROM failures AS f
LEFT JOIN urls AS u ON u.id = f.id
WHERE u.id IS NULL;

-- name: tried_without_count
SELECT count(*), 'URLs are marked as tried without a count of tries, or the other way round'
FROM urls AS u
LEFT JOIN tries AS t ON t.id = u.id
WHERE (u.flags & 4 <> 0) <> (t.id IS NOT NULL);

-- name: waiting_not_queued
SELECT count(*), 'URLs wait for a retry without being queued'
FROM urls
WHERE due_at IS NOT NULL AND state <> 0;

-- name: ungoverned_not_visited
SELECT count(*), 'pages to be judged again are not visited'
FROM ungoverned AS g
LEFT JOIN urls AS u ON u.id = g.id
WHERE u.state IS DISTINCT FROM 1;

-- name: redirects_not_visited
SELECT count(*), 'redirects belong to URLs that were not visited'
FROM redirects AS r
LEFT JOIN urls AS u ON u.id = r.id
WHERE u.state IS NULL OR u.state NOT IN (1, 2);

-- name: redirects_to_nothing
SELECT count(*), 'redirects lead to no URL'
FROM redirects AS r
LEFT JOIN urls AS u ON u.id = r.target
WHERE u.id IS NULL;

-- name: links_without_page
SELECT count(*), 'links belong to no page, or lead to no URL'
FROM edges AS e
LEFT JOIN pages AS p ON p.id = e.source
LEFT JOIN urls AS u ON u.id = e.target
WHERE p.id IS NULL OR u.id IS NULL;

-- name: hrefs_without_page
SELECT count(*), 'malformed links belong to no page'
FROM hrefs AS h
LEFT JOIN pages AS p ON p.id = h.source
WHERE p.id IS NULL;

-- name: pointers_without_page
SELECT count(*), 'links with a fragment belong to no page, or lead to no URL'
FROM pointers AS f
LEFT JOIN pages AS p ON p.id = f.source
LEFT JOIN urls AS u ON u.id = f.target
WHERE p.id IS NULL OR u.id IS NULL;

-- name: elements_without_page
SELECT count(*), 'names of elements belong to no page'
FROM elements AS e
LEFT JOIN pages AS p ON p.id = e.page
WHERE p.id IS NULL;

-- name: canonical_without_url
SELECT count(*), 'pages call no URL canonical'
FROM pages AS p
LEFT JOIN urls AS u ON u.id = p.canonical
WHERE p.canonical IS NOT NULL AND u.id IS NULL;

-- name: urls_without_origin
SELECT count(*), 'URLs belong to no origin'
FROM urls AS u
LEFT JOIN origins AS o ON o.id = u.origin
WHERE o.id IS NULL;

-- name: referrers_missing
SELECT count(*), 'URLs were found on pages that are not there'
FROM urls AS u
LEFT JOIN urls AS r ON r.id = u.referrer
WHERE u.referrer IS NOT NULL AND r.id IS NULL;

-- name: sitemaps_visited
SELECT count(*), 'sitemaps count as visited pages'
FROM urls
WHERE flags & 16 <> 0 AND state = 1;

-- name: readings_without_url
SELECT count(*), 'sitemaps that were read belong to no URL'
FROM readings AS g
LEFT JOIN urls AS u ON u.id = g.id
WHERE u.id IS NULL;

-- name: hints_without_url
SELECT count(*), 'listings belong to no URL'
FROM hints AS h
LEFT JOIN urls AS u ON u.id = h.id
WHERE u.id IS NULL;

-- name: plans_without_page
SELECT count(*), 'pages to be visited again are not visited, or not of the host they are kept under'
FROM plans AS n
LEFT JOIN urls AS u ON u.id = n.id
LEFT JOIN origins AS o ON o.id = u.origin
WHERE u.id IS NULL OR o.slot <> n.slot OR NOT (u.state = 1 OR (u.state = 4 AND u.flags & 16 <> 0));

-- name: slots_revisit_at
SELECT count(*), 'hosts do not know when their next page is due again'
FROM slots AS s
LEFT JOIN (SELECT slot, min(due_at) AS due_at FROM plans GROUP BY slot) AS n ON n.slot = s.id
WHERE s.revisit_at IS DISTINCT FROM n.due_at;

-- name: listed_without_listing
SELECT count(*), 'URLs are marked as listed without a listing, or the other way round'
FROM urls AS u
LEFT JOIN hints AS h ON h.id = u.id
WHERE (u.flags & 32 <> 0) <> (h.id IS NOT NULL);

-- name: data_without_url
SELECT count(*), 'URLs are marked as having data without any, or the other way round'
FROM (
  SELECT u.id FROM urls AS u LEFT JOIN data AS d ON d.id = u.id
  WHERE (u.flags & 128 <> 0) <> (d.id IS NOT NULL)
  UNION ALL
  SELECT d.id FROM data AS d LEFT JOIN urls AS u ON u.id = d.id WHERE u.id IS NULL
) AS wrong;

-- name: seeds_without_url
SELECT count(*), 'seeds are no URLs'
FROM seeds AS s
LEFT JOIN urls AS u ON u.id = s.id
WHERE u.id IS NULL;

-- name: fingerprints_wrong
SELECT count(*), 'fingerprints lead to the wrong URL'
FROM known AS k
LEFT JOIN urls AS u ON u.id = abs(k.id)
LEFT JOIN readings AS g ON g.id = u.id
WHERE u.id IS NULL OR u.origin <> k.origin OR (k.id < 0 AND u.state <> 4) OR (k.id > 0 AND u.state
  = 4 AND (g.id IS NULL OR u.flags & 16 = 0));

-- name: slots_pending
SELECT count(*), 'hosts are marked as having queued URLs without having any, or the other way round'
FROM slots
WHERE pending <> (queued > 0);

-- name: origins_pending
SELECT count(*), 'origins are marked as having work without having any, or the other way round'
FROM origins
WHERE pending <> (queued > 0) OR governs <> (queued + judged + ungoverned > 0);

-- name: urls_without_fingerprint
SELECT abs((SELECT count(*) FROM urls) - (SELECT count(*) FROM known)), 'URLs cannot be found by their fingerprint';

-- ---------------------------------------------------------------- counters

-- name: recounted
WITH
  u AS (
    SELECT
      u.origin, count(*) FILTER (WHERE u.state = 0) AS queued,
      count(*) FILTER (WHERE u.state = 1) AS visited,
      count(*) FILTER (WHERE u.state = 2) AS blocked,
      count(*) FILTER (WHERE u.state = 3) AS failed,
      CAST(coalesce(sum(p.body_bytes), 0) AS bigint) AS body_bytes
    FROM urls AS u LEFT JOIN pages AS p ON p.id = u.id GROUP BY u.origin
  ),
  b AS (SELECT origin, CAST(sum(judged) AS bigint) AS judged FROM blocks GROUP BY origin),
  g AS (SELECT origin, count(*) AS ungoverned FROM ungoverned GROUP BY origin)
SELECT
  o.name, o.queued, o.visited, o.blocked, o.failed, o.body_bytes, o.judged, o.ungoverned,
  coalesce(u.queued, 0), coalesce(u.visited, 0), coalesce(u.blocked, 0), coalesce(u.failed, 0),
  coalesce(u.body_bytes, 0), coalesce(b.judged, 0), coalesce(g.ungoverned, 0)
FROM origins AS o
LEFT JOIN u ON u.origin = o.id LEFT JOIN b ON b.origin = o.id LEFT JOIN g ON g.origin = o.id;

-- name: summed
SELECT
  s.name, s.queued, s.visited, s.blocked, s.failed, s.body_bytes,
  CAST(coalesce(sum(o.queued), 0) AS bigint), CAST(coalesce(sum(o.visited), 0) AS bigint),
  CAST(coalesce(sum(o.blocked), 0) AS bigint), CAST(coalesce(sum(o.failed), 0) AS bigint),
  CAST(coalesce(sum(o.body_bytes), 0) AS bigint)
FROM slots AS s LEFT JOIN origins AS o ON o.slot = s.id GROUP BY s.id;
