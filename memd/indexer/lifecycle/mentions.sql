-- name: tag_groups
-- Tags with the memories that have them, without those that are on too many.
SELECT GROUP_CONCAT(n.memory) AS members FROM names n CROSS JOIN memories m ON m.id = n.memory
WHERE {which} AND m.workspace = :workspace AND m.file IS NOT NULL AND n.rank = :tag
GROUP BY n.name HAVING COUNT(*) BETWEEN :rare AND :most

-- name: in_files
SELECT m.id FROM json_each(?) w CROSS JOIN memories m ON m.id = w.value WHERE m.file IS NOT NULL

-- name: change_edge
UPDATE edges SET origin = ?1, base = ?2, weight = ?2, removed = ?3 WHERE id = ?4

-- name: edge
SELECT * FROM edges WHERE one = ? AND other = ? AND rel = ?

-- name: between
-- The mentions that make an edge of two memories; without a direction, those of either.
SELECT memory, target, origin, weight FROM mentions
WHERE rel = ?3 AND ((memory = ?1 AND found = ?2) OR (?4 AND memory = ?2 AND found = ?1))
