-- name: change_useful
UPDATE memories SET useful = MAX(0, useful + ?) WHERE id = ? RETURNING useful

-- name: change_edge
UPDATE edges SET removed = ?1 WHERE one = ?2 AND other = ?3 AND rel = ?4 AND removed = ?5

-- name: removed_file
-- The bytes of a file when it was last removed, by whomever.
SELECT s.removed FROM splices s JOIN actions a ON a.id = s.action
WHERE a.workspace = ? AND s.path = ? AND s."after" IS NULL ORDER BY a.id DESC LIMIT 1
