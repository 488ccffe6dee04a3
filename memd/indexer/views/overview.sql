-- name: tiers
SELECT m.tier, COUNT(*) FROM memories m INDEXED BY memories_kept
WHERE m.workspace = :workspace AND m.file IS NOT NULL AND {alive} GROUP BY m.tier

-- name: last_days
SELECT m.date AS day, COUNT(*) OVER () AS total FROM memories m INDEXED BY memories_kept
WHERE m.workspace = :workspace AND m.file IS NOT NULL AND {alive} AND m.role = 'daily' AND m.date <> ''
GROUP BY m.date ORDER BY m.date DESC LIMIT :days

-- name: day_headings
SELECT m.date, m.heading FROM memories m JOIN files f ON f.id = m.file
WHERE m.workspace = :workspace AND {alive} AND m.role = 'daily' AND m.slug <> '' AND m.date AMONG :dates
ORDER BY f.path, m.start_line

-- name: counts
-- As JSON. A covering index: counting 10,000 memories reads none of their rows, once and in its order.
WITH
here AS MATERIALIZED (
  SELECT tier, kind, role, COUNT(*) AS n FROM memories INDEXED BY memories_kept
  WHERE file IS NOT NULL AND workspace AMONG :workspaces GROUP BY workspace, role, date, tier, kind
),
-- Those that `edge list` shows: both ends are in the files, and neither was deleted or has expired.
living AS (
  SELECT rel, origin FROM edges WHERE NOT removed AND workspace AMONG :workspaces
  AND EXISTS (SELECT 1 FROM memories m WHERE m.id = one AND m.file IS NOT NULL AND {alive})
  AND EXISTS (SELECT 1 FROM memories m WHERE m.id = other AND m.file IS NOT NULL AND {alive})
)
SELECT json_object(
  'memories', json_object(
    'total', (SELECT COALESCE(SUM(n), 0) FROM here),
    'tier', json((SELECT json_group_object(tier, n) FROM (SELECT tier, SUM(n) AS n FROM here GROUP BY 1 ORDER BY 1))),
    'kind', json((SELECT json_group_object(kind, n) FROM (SELECT kind, SUM(n) AS n FROM here GROUP BY 1 ORDER BY 1))),
    'role', json((SELECT json_group_object(role, n) FROM (SELECT role, SUM(n) AS n FROM here GROUP BY 1 ORDER BY 1))),
    'pinned', (SELECT COUNT(*) FROM memories m
               WHERE m.file IS NOT NULL AND m.workspace AMONG :workspaces AND {is_pinned}),
    'gone', (SELECT COUNT(*) FROM memories WHERE gone IS NOT NULL AND workspace AMONG :workspaces)
  ),
  'chunks', (SELECT COUNT(*) FROM chunks WHERE workspace AMONG :workspaces),
  'versions', (SELECT COUNT(*) FROM versions v WHERE {which}),
  'actions', (SELECT COUNT(*) FROM actions WHERE workspace AMONG :workspaces),
  'edges', json_object(
    'total', (SELECT COUNT(*) FROM living),
    'rel', json((SELECT json_group_object(rel, n) FROM (SELECT rel, COUNT(*) AS n FROM living GROUP BY 1 ORDER BY 1))),
    'origin', json((SELECT json_group_object(origin, n)
                    FROM (SELECT origin, COUNT(*) AS n FROM living GROUP BY 1 ORDER BY 1)))
  ),
  -- What was counted, and what the next reflect will count.
  'accesses', json((
    SELECT json_object(
      'counted', COALESCE(SUM(accesses), 0), 'memories', COUNT(accessed), 'useful', COALESCE(SUM(useful), 0),
      'waiting', (SELECT COUNT(*) FROM accesses a JOIN memories w ON w.id = a.memory
                  WHERE NOT a.counted AND w.workspace AMONG :workspaces)
    ) FROM memories m WHERE m.file IS NOT NULL AND +m.workspace AMONG :workspaces
  ))
)

-- name: tier_changes
-- By how much each day changed the number of memories in each tier.
WITH
-- Memories that moved, with the tier that each began in: with MIN, SQLite takes `was` from the first move.
first_moved AS (
  SELECT m.first_seen, m.tier, s."before" ->> 'tier' AS was, MIN(s.action * 1000000 + s.nth)
  FROM shifts s CROSS JOIN memories m ON m.id = s.memory
  WHERE s.what = 'tier' AND m.workspace AMONG :workspaces AND m.first_seen >= :since GROUP BY s.memory
),
moves AS (
  SELECT substr(a.at, 1, 10) AS day, s."before" ->> 'tier' AS was, s."after" ->> 'tier' AS became
  FROM actions a JOIN shifts s ON s.action = a.id
  WHERE a.workspace AMONG :workspaces AND a.at >= :since AND s.what = 'tier'
)
SELECT substr(m.first_seen, 1, 10), m.tier, COUNT(*)
FROM memories m WHERE +m.workspace AMONG :workspaces AND m.first_seen >= :since GROUP BY 1, 2
UNION ALL SELECT substr(first_seen, 1, 10), was, COUNT(*) FROM first_moved GROUP BY 1, 2
UNION ALL SELECT substr(first_seen, 1, 10), tier, -COUNT(*) FROM first_moved GROUP BY 1, 2
UNION ALL SELECT substr(m.gone, 1, 10), m.tier, -COUNT(*)
FROM memories m WHERE m.workspace AMONG :workspaces AND m.gone IS NOT NULL AND m.gone >= :since GROUP BY 1, 2
UNION ALL SELECT day, became, COUNT(*) FROM moves GROUP BY 1, 2
UNION ALL SELECT day, was, -COUNT(*) FROM moves GROUP BY 1, 2

-- name: noted
SELECT m.date AS day, COUNT(*) FROM memories m INDEXED BY memories_kept
WHERE m.file IS NOT NULL AND m.deleted IS NULL AND m.workspace AMONG :workspaces AND day <> '' AND day >= :since
AND (:until = '' OR substr(day, 1, length(:until)) <= :until) GROUP BY 1

-- name: written
-- Texts that were added, changed and removed, by anyone. The index has all but the digests, and few are missing.
WITH
times AS MATERIALIZED (
  SELECT v.at, COUNT(*) AS many, SUM(v.number = 1) AS added FROM versions v INDEXED BY versions_at
  WHERE {which} GROUP BY v.at
),
gone AS MATERIALIZED (SELECT v.at FROM versions v WHERE v.digest IS NULL AND {which})
SELECT date(minute, 'localtime') AS day, what, SUM(many) AS n FROM (
  -- By the minute first: turning the time of each of 100,000 versions into a local day takes most of a second.
  SELECT substr(at, 1, 16) AS minute, what, SUM(many) AS many FROM (
    SELECT at, 'added' AS what, added AS many FROM times
    UNION ALL SELECT at, 'changed', many - added FROM times
    UNION ALL SELECT at, 'changed', -1 FROM gone UNION ALL SELECT at, 'removed', 1 FROM gone
  ) GROUP BY minute, what
)
WHERE day <> '' AND day >= :since AND (:until = '' OR substr(day, 1, length(:until)) <= :until)
GROUP BY day, what HAVING n ORDER BY what

-- name: moved
-- Memories that moved to another tier, without moves that were undone.
SELECT date(a.at, 'localtime') AS day, s."after" ->> 'tier' AS what, COUNT(*) AS n
FROM actions a JOIN shifts s ON s.action = a.id AND s.what = 'tier'
WHERE a.workspace AMONG :workspaces AND a.undone IS NULL
AND day <> '' AND day >= :since AND (:until = '' OR substr(day, 1, length(:until)) <= :until)
GROUP BY 1, 2 ORDER BY 2

-- name: done
-- Actions by their sort, with the keys where they are few.
SELECT day, what, COUNT(*) AS n, CASE WHEN COUNT(*) <= :few THEN json_group_array(key) ELSE '[]' END AS keys FROM (
  SELECT date(a.at, 'localtime') AS day, a.what, a.key FROM actions a
  WHERE a.state = 'done' AND a.workspace AMONG :workspaces
  AND day <> '' AND day >= :since AND (:until = '' OR substr(day, 1, length(:until)) <= :until) ORDER BY a.id
) GROUP BY day, what ORDER BY day, what

-- name: first_notes
-- The first notes of each day.
SELECT * FROM (
  SELECT m.workspace, m.date, m.heading, m.slug, m.tier, f.path, f.stem, m.start_line,
    ROW_NUMBER() OVER (PARTITION BY m.date ORDER BY m.workspace, f.path, m.start_line) AS nth
  FROM memories m INDEXED BY memories_kept JOIN files f ON f.id = m.file
  WHERE m.workspace AMONG :workspaces AND m.date AMONG :days AND m.deleted IS NULL
) WHERE nth <= :most ORDER BY date, nth

-- name: drop_exams
DELETE FROM exams WHERE workspace = ?1
AND date NOT IN (SELECT date FROM exams WHERE workspace = ?1 ORDER BY date DESC LIMIT ?2)

-- name: keep_exam
INSERT OR REPLACE INTO exams (workspace, date, probes, recall, p95_ms) VALUES (?, ?, ?, ?, ?)

-- name: exams
SELECT date, probes, recall, p95_ms FROM exams WHERE workspace = ? ORDER BY date DESC LIMIT ?
