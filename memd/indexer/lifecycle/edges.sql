-- name: insert
INSERT OR IGNORE INTO edges (workspace, one, other, rel, base, weight, origin, made) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7)

-- name: living
-- Both ends are in files, and neither has expired.
SELECT e.id, e.one, e.other, e.rel, e.weight, e.origin, e.base, e.made, e.accesses, e.accessed
FROM edges e CROSS JOIN memories a ON a.id = e.one CROSS JOIN memories b ON b.id = e.other
WHERE e.removed = 0 AND a.file IS NOT NULL AND b.file IS NOT NULL AND {one_alive} AND {other_alive} AND {which}

-- name: of_memories
SELECT e.id FROM json_each(?1) w CROSS JOIN edges e ON e.one = w.value
UNION SELECT e.id FROM json_each(?1) w CROSS JOIN edges e ON e.other = w.value

-- name: first_texts
-- The first text of each memory comes last.
SELECT memory, text FROM chunks WHERE memory AMONG ? ORDER BY memory, start_line DESC, id DESC

-- name: shown_together
SELECT t.one, t.other, t.client, t.hour FROM together t CROSS JOIN memories m ON m.id = t.one
WHERE m.workspace = ? AND NOT t.counted LIMIT ?

-- name: strengthen
-- One that had faded away is back.
UPDATE edges SET accesses = accesses + ?1, base = ?2, weight = ?2, accessed = ?3, removed = 0 WHERE id = ?4

-- name: fading
SELECT id, base, weight, origin, accesses, COALESCE(accessed, made) AS used FROM edges
WHERE workspace = ? AND removed = 0 AND origin IN (?, ?) AND (weight <> base OR (accesses < ? AND used < ?))

-- name: containing
-- Everything that contains a summary, directly or through others.
WITH RECURSIVE above(id) AS (
  SELECT one FROM edges WHERE other = ?1 AND rel = ?2 AND NOT removed
  UNION SELECT e.one FROM edges e JOIN above a ON e.other = a.id WHERE e.rel = ?2 AND NOT e.removed
)
SELECT id FROM above

-- name: count_shown
UPDATE together SET counted = 1 WHERE one = ? AND other = ? AND client = ? AND hour = ?

-- name: between
SELECT * FROM edges WHERE ((one = ?1 AND other = ?2) OR (one = ?2 AND other = ?1)) AND removed <> ?3

-- name: weaken
UPDATE edges SET weight = ?, removed = ? WHERE id = ?
