-- The statements of vector_table.py, each below its name.

-- name: add_model
INSERT INTO models (name, fingerprint, recipe, dims, source) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (fingerprint, recipe) DO UPDATE SET source = excluded.source

-- name: models_with_vectors
SELECT m.*, (SELECT COUNT(*) FROM vectors v WHERE v.model = m.id) AS made
FROM models m
WHERE m.source <> ? AND made > 0
ORDER BY made DESC, m.id DESC

-- name: forget_other_models
DELETE FROM models WHERE recipe <> ? OR fingerprint NOT IN (SELECT value FROM json_each(?))

-- name: of_chunks
SELECT c.id, v.vector
-- CROSS JOIN keeps this order: look up a few chunks, not every vector.
FROM json_each(:chunks) j
CROSS JOIN chunks c ON c.id = j.value
CROSS JOIN vectors v ON v.model = :model AND v.digest = c.digest

-- name: unembedded
SELECT c.id, c.workspace, c.digest, c.heading, c.context, c.text
FROM json_each(:chunks) j CROSS JOIN chunks c ON c.id = j.value
WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.model = :model AND v.digest = c.digest)
ORDER BY j.key

-- name: of_digests
SELECT v.digest, v.vector
FROM json_each(:digests) j CROSS JOIN vectors v ON v.model = :model AND v.digest = j.value
-- The plus keeps SQLite from going through all chunks of the workspace for each text.
WHERE EXISTS (SELECT 1 FROM chunks c WHERE c.digest = v.digest AND +c.workspace = :workspace)

-- name: nearest_chunks
SELECT j.key, c.id
FROM json_each(?) j CROSS JOIN chunks c ON c.digest = j.value
-- The plus, as above.
WHERE +c.workspace = ?
LIMIT ?

-- name: any_multilingual
SELECT EXISTS (SELECT 1 FROM chunks WHERE language > '') OR EXISTS (SELECT 1 FROM workspaces WHERE polyglot)

-- name: sweep
DELETE FROM vectors WHERE digest NOT IN (SELECT digest FROM chunks)
