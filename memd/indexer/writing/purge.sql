-- name: same_key
SELECT DISTINCT m.id FROM memories m JOIN versions v ON v.memory = m.id
WHERE m.workspace = :workspace AND m.slug = :slug AND m.gone IS NOT NULL
  AND v.path AMONG :paths

-- name: workspaces_of
SELECT DISTINCT workspace FROM memories WHERE id AMONG ?
