-- name: brought
-- Memories whose only version is an import's.
SELECT m.id, m.slug, m.digest, f.path FROM memories m JOIN files f ON f.id = m.file
WHERE m.workspace = ? AND f.path AMONG ?
AND (SELECT COUNT(*) FROM versions v WHERE v.memory = m.id) = 1
AND EXISTS (SELECT 1 FROM versions v JOIN actions a ON a.id = v.action WHERE v.memory = m.id AND a.what = 'import')

-- name: restore_edge
-- An edge that was used here already stays as it is.
INSERT INTO edges (workspace, one, other, rel, base, weight, origin, made, accesses, accessed, removed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (one, other, rel) DO UPDATE SET base = excluded.base, weight = excluded.weight, made = excluded.made,
  accesses = excluded.accesses, accessed = excluded.accessed, removed = excluded.removed
WHERE edges.accesses = 0 AND NOT edges.removed

-- name: digests
SELECT digest FROM memories WHERE workspace = ? AND file IS NOT NULL

-- name: known
SELECT 1 FROM memories WHERE workspace = ? AND digest = ? AND first_seen = ?
