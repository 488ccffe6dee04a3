-- name: keep_mention
INSERT INTO mentions (memory, rel, target, origin, weight) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET origin = excluded.origin, weight = excluded.weight

-- name: named
-- In this order: starting from the memories, SQLite would look up every name for each of them.
SELECT n.name, n.memory, n.rank, m.slug, f.path
FROM json_each(?) w CROSS JOIN names n ON n.name = w.value
CROSS JOIN memories m ON m.id = n.memory CROSS JOIN files f ON f.id = m.file
WHERE m.workspace = ?

-- name: placed
SELECT f.path, m.slug FROM memories m JOIN files f ON f.id = m.file WHERE m.id AMONG ?

-- name: names
SELECT name FROM names WHERE rank < ? AND memory AMONG ?
