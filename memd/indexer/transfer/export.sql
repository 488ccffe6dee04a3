-- name: gone
SELECT * FROM memories WHERE workspace = ? AND gone IS NOT NULL AND id > ? ORDER BY id

-- name: edges
-- Those that are not in the files, and those of any origin that were removed.
SELECT * FROM edges WHERE workspace = ? AND id > ? AND (removed OR origin NOT IN ('declared', 'written')) ORDER BY id
