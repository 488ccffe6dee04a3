-- name: same_key
SELECT DISTINCT m.id FROM memories m JOIN versions v ON v.memory = m.id
WHERE m.workspace = :workspace AND m.slug = :slug
  -- Nobody looks into the files of a workspace that is no longer watched.
  AND (m.gone IS NOT NULL OR m.workspace IN (SELECT id FROM workspaces WHERE ns LIKE '% %'))
  AND v.path AMONG :paths

-- name: workspaces_of
SELECT DISTINCT workspace FROM memories WHERE id AMONG ?
