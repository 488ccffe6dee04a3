-- name: tags
SELECT f.path, m.tags FROM memories m JOIN files f ON f.id = m.file
WHERE m.workspace = ? AND m.slug = '' AND f.path AMONG ?
