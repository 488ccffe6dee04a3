-- name: changed
-- Memories whose text was not compared yet and whose chunks all have vectors.
SELECT m.id, m.digest FROM memories m
WHERE m.workspace = ? AND m.file IS NOT NULL AND m.compared <> m.digest
AND EXISTS (SELECT 1 FROM chunks c WHERE c.memory = m.id)
AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.memory = m.id
                AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.model = ? AND v.digest = c.digest AND {whole}))
ORDER BY m.id LIMIT ?

-- name: automatic
SELECT e.id, e.one, e.other, e.weight
FROM edges e JOIN memories o ON o.id = CASE WHEN e.one = ?1 THEN e.other ELSE e.one END
WHERE (e.one = ?1 OR e.other = ?1) AND e.origin = ?2 AND e.removed = 0 AND o.file IS NOT NULL
ORDER BY e.weight DESC, e.one, e.other, e.rel

-- name: refuse
INSERT INTO edges (workspace, one, other, rel, base, weight, origin, made, removed) VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?)
ON CONFLICT DO UPDATE SET removed = excluded.removed

-- name: drop_outdated
DELETE FROM edges WHERE workspace = ?1 AND origin = ?2 AND rel = ?3 AND removed = 0 AND (
  one IN (SELECT id FROM memories WHERE workspace = ?1 AND changed > ?4)
  OR other IN (SELECT id FROM memories WHERE workspace = ?1 AND changed > ?4)
)

-- name: texts
SELECT memory, role, pinned, heading, date, first_seen, importance, GROUP_CONCAT(text, char(10)) AS text FROM (
  SELECT m.id AS memory, m.role, COALESCE({is_pinned}, 0) AS pinned, m.heading, m.date, m.first_seen, m.importance, c.text
  FROM memories m JOIN chunks c ON c.memory = m.id
  WHERE m.file IS NOT NULL AND m.id AMONG ? ORDER BY m.id, c.start_line, c.id
) GROUP BY memory

-- name: workspaces
SELECT DISTINCT workspace FROM memories WHERE file IS NOT NULL AND compared <> digest

-- name: mark
UPDATE memories SET compared = digest WHERE id = ? AND digest = ?

-- name: edge
SELECT * FROM edges WHERE one = ? AND other = ? AND rel = ?

-- name: renew
UPDATE edges SET origin = ?1, base = ?2, weight = ?2, made = ?3, removed = 0 WHERE id = ?4

-- name: typed
SELECT 1 FROM edges
WHERE removed = 0 AND rel <> ?3 AND ((one = ?1 AND other = ?2) OR (one = ?2 AND other = ?1)) LIMIT 1

-- name: digests
SELECT id, digest FROM memories WHERE file IS NOT NULL AND tier <> 'dormant' AND id AMONG ?
