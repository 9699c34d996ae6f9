-- The reports, each one query, ordered so that rows that belong together are adjacent. They read
-- whole tables. Where a column can be NULL, that comes first.

-- The pages that link to a URL: all of them where links are stored, otherwise the first.
-- name: broken
WITH RECURSIVE
  walk (start, at, hops) AS (
    SELECT r.id, r.target, 1 FROM redirects AS r
    WHERE EXISTS (SELECT 1 FROM redirects AS d WHERE d.target = r.id)
    UNION ALL
    SELECT w.start, d.target, w.hops + 1
    FROM walk AS w JOIN redirects AS d ON d.id = w.at
    WHERE w.at <> w.start AND w.hops < 100
  ),
  loops (id) AS (
    SELECT w.start FROM walk AS w JOIN pages AS p ON p.id = w.start WHERE w.at = w.start
  ),
  broken (id, error) AS (
    SELECT id, NULL FROM failures
    UNION ALL
    SELECT id, NULL FROM pages WHERE kind IN (SELECT id FROM kinds WHERE status >= 400)
    UNION ALL
    SELECT id, 'redirects: it redirects in a loop' FROM loops
    UNION ALL
    SELECT p.id, 'redirects: it redirects to no URL' FROM pages AS p
    WHERE p.kind IN (SELECT id FROM kinds WHERE status IN (301, 302, 303, 307, 308))
      AND NOT EXISTS (SELECT 1 FROM redirects AS d WHERE d.id = p.id)
      AND NOT EXISTS (SELECT 1 FROM hrefs AS h WHERE h.source = p.id)  -- malformed links
  ),
  reach (target, via, hops) AS (
    SELECT id, id, 0 FROM broken
    UNION
    SELECT r.target, d.id, r.hops + 1
    FROM reach AS r JOIN redirects AS d ON d.target = r.via
    WHERE r.hops < 100 AND d.id NOT IN (SELECT id FROM loops)
  ),
  linking (target, via, source, anchor, kind) AS (
    SELECT
      r.target, r.via, e.source, e.anchor,
      CASE e.rel WHEN 1 THEN 'nofollow' WHEN 2 THEN 'canonical' WHEN 4 THEN 'requisite'
        WHEN 5 THEN 'image' WHEN 6 THEN 'style' WHEN 7 THEN 'script' WHEN 8 THEN 'font'
        WHEN 9 THEN 'media' ELSE 'link' END
    FROM reach AS r JOIN edges AS e ON e.target = r.via WHERE e.rel IS DISTINCT FROM 3
    UNION ALL
    SELECT
      r.target, r.via, u.referrer, u.anchor,
      CASE WHEN u.flags & 8 <> 0 THEN 'requisite' ELSE 'link' END
    FROM reach AS r JOIN urls AS u ON u.id = r.via
    WHERE u.referrer IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM edges AS e WHERE e.source = u.referrer AND e.target = r.via)
      AND NOT EXISTS (SELECT 1 FROM redirects AS d WHERE d.id = u.referrer AND d.target = r.via)
  )
SELECT
  o.name || u.path, k.status, coalesce(t.text, b.error), so.name || s.path,
  CASE WHEN l.via <> b.id THEN vo.name || v.path END, l.anchor, l.kind
FROM broken AS b
JOIN urls AS u ON u.id = b.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN pages AS p ON p.id = b.id
LEFT JOIN kinds AS k ON k.id = p.kind
LEFT JOIN failures AS f ON f.id = b.id
LEFT JOIN texts AS t ON t.id = f.error
LEFT JOIN linking AS l ON l.target = b.id
LEFT JOIN urls AS s ON s.id = l.source
LEFT JOIN origins AS so ON so.id = s.origin
LEFT JOIN urls AS v ON v.id = l.via
LEFT JOIN origins AS vo ON vo.id = v.origin
ORDER BY
  b.id, l.via <> b.id NULLS FIRST, l.via NULLS FIRST, l.source NULLS FIRST;

-- name: forbidden
WITH linked (id, source, anchor) AS (
  SELECT b.id, e.source, e.anchor FROM blocks AS b JOIN edges AS e ON e.target = b.id
  UNION ALL
  SELECT b.id, u.referrer, u.anchor FROM blocks AS b JOIN urls AS u ON u.id = b.id
  WHERE CASE
    WHEN u.referrer IS NULL THEN NOT EXISTS (SELECT 1 FROM edges AS e WHERE e.target = b.id)
    ELSE NOT EXISTS (SELECT 1 FROM edges AS e WHERE e.target = b.id AND e.source = u.referrer)
  END
)
SELECT
  h.name, v.robots_url, v.line, v.rule, v.reason, o.name || u.path, b.withdrawn, l.anchor,
  ro.name || r.path
FROM blocks AS b
JOIN urls AS u ON u.id = b.id
JOIN origins AS o ON o.id = u.origin
JOIN slots AS h ON h.id = o.slot
JOIN verdicts AS v ON v.id = b.verdict
LEFT JOIN linked AS l ON l.id = b.id
LEFT JOIN urls AS r ON r.id = l.source
LEFT JOIN origins AS ro ON ro.id = r.origin
ORDER BY
  h.name, v.robots_url, v.line NULLS FIRST, v.rule NULLS FIRST, b.id, l.source NULLS FIRST;

-- name: duplicates
WITH
answered (id) AS (SELECT id FROM kinds WHERE status BETWEEN 200 AND 299),
several (hash) AS (
  SELECT body_hash FROM pages
  WHERE body_hash IS NOT NULL AND kind IN (SELECT id FROM answered)
  GROUP BY body_hash HAVING count(*) > 1
)
SELECT
  hex16(p.body_hash), o.name || u.path, k.status, p.body_bytes, t.text, p.title,
  co.name || c.path
FROM pages AS p
CROSS JOIN kinds AS k ON k.id = p.kind
JOIN urls AS u ON u.id = p.id
JOIN origins AS o ON o.id = u.origin
LEFT JOIN texts AS t ON t.id = k.content_type
LEFT JOIN urls AS c ON c.id = p.canonical
LEFT JOIN origins AS co ON co.id = c.origin
WHERE p.body_hash IN (SELECT hash FROM several) AND k.status BETWEEN 200 AND 299
ORDER BY p.body_hash, p.id;

-- name: malformed
SELECT h.href, h.reason, so.name || s.path
FROM hrefs AS h
JOIN urls AS s ON s.id = h.source
JOIN origins AS so ON so.id = s.origin
ORDER BY h.href, h.reason, h.source, h.place;

-- A redirect keeps the fragment of a link, unless it has one of its own (RFC 9110, section 10.2.2).
-- name: dangling
WITH RECURSIVE reach (source, place, target, hops) AS (
  SELECT source, place, target, 0 FROM pointers
  UNION
  SELECT r.source, r.place, d.target, r.hops + 1
  FROM reach AS r JOIN redirects AS d ON d.id = r.target
  WHERE r.hops < 100
    AND NOT EXISTS (SELECT 1 FROM pointers AS own WHERE own.source = d.id AND own.target = d.target)
)
SELECT
  o.name || u.path, f.fragment, so.name || s.path,
  CASE WHEN r.hops <> 0 THEN vo.name || v.path END
FROM reach AS r
JOIN pointers AS f ON f.source = r.source AND f.place = r.place
JOIN pages AS p ON p.id = r.target
JOIN kinds AS k ON k.id = p.kind
JOIN urls AS u ON u.id = r.target
JOIN origins AS o ON o.id = u.origin
JOIN urls AS s ON s.id = r.source
JOIN origins AS so ON so.id = s.origin
JOIN urls AS v ON v.id = f.target
JOIN origins AS vo ON vo.id = v.origin
WHERE k.directives & 16 <> 0
AND NOT EXISTS (SELECT 1 FROM redirects AS d WHERE d.id = r.target)
AND NOT EXISTS (
  SELECT 1 FROM elements AS e
  WHERE e.page = r.target
    {postgres: AND left(e.name, 500) IN (left(f.fragment, 500), left(f.decoded, 500))}
    AND e.name IN (f.fragment, f.decoded)
)
ORDER BY r.target, f.fragment, r.hops <> 0, r.source, f.place;

-- name: looked
SELECT
  count(*), CAST(coalesce(sum(k.directives >> 3 & 1), 0) AS double precision),
  CAST(coalesce(sum(k.directives >> 6 & 1), 0) AS double precision),
  CAST(coalesce(sum(k.directives >> 4 & 1), 0) AS double precision),
  CAST(coalesce(sum(k.directives >> 5 & 1), 0) AS double precision)
FROM pages AS p
CROSS JOIN kinds AS k ON k.id = p.kind
JOIN texts AS t ON t.id = k.content_type
WHERE k.status BETWEEN 200 AND 299
  AND ({sqlite: t.text LIKE 'text/html%' OR t.text LIKE 'application/xhtml+xml%'}
    {postgres: t.text ILIKE 'text/html%' OR t.text ILIKE 'application/xhtml+xml%'});
