-- name: memories
SELECT m.*, f.path || '#' || m.slug AS name FROM memories m JOIN files f ON f.id = m.file WHERE m.workspace = ?

-- name: use_edge
UPDATE edges SET accesses = MAX(0, accesses + ?1), base = ?2, weight = ?2,
  accessed = NULLIF(MAX(COALESCE(accessed, ''), ?3), ''), removed = CASE removed WHEN ?4 THEN 0 ELSE removed END
WHERE id = ?5

-- name: edge
SELECT * FROM edges WHERE one = ? AND other = ? AND rel = ?
