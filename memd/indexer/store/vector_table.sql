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

-- name: unembedded
SELECT c.id, c.workspace, c.digest, c.heading, c.context, c.text
FROM json_each(?) j CROSS JOIN chunks c ON c.id = j.value
WHERE {which} AND {no_vector} ORDER BY j.key

-- name: pending_counts
SELECT c.workspace, COUNT(*) FROM chunks c WHERE c.id > ? AND {which} AND {no_vector} GROUP BY c.workspace

-- name: of_workspace
SELECT c.id, v.vector {embedded} WHERE c.workspace = ? AND length(v.vector)

-- name: newest_embedded
SELECT c.id {embedded} WHERE c.workspace = ? ORDER BY c.id DESC LIMIT 1

-- name: embedded_count
SELECT COUNT(*) {embedded} WHERE c.workspace = ?

-- name: text_count
SELECT COUNT(DISTINCT c.digest) {shown}

-- name: shown_digests
SELECT DISTINCT c.digest {shown}

-- name: unsent
SELECT id, workspace, digest FROM unsent WHERE id > ? ORDER BY id LIMIT ?

-- name: emptied
SELECT digest FROM vectors WHERE model = ? AND NOT length(vector) AND digest AMONG ?

-- name: drop_lost
DELETE FROM vectors WHERE model = ? AND NOT length(vector) AND digest AMONG ?

-- name: of_chunks
SELECT c.id, v.vector
-- CROSS JOIN keeps this order: look up a few chunks, not every vector.
FROM json_each(:chunks) j
CROSS JOIN chunks c ON c.id = j.value
CROSS JOIN vectors v ON v.model = :model AND v.digest = c.digest AND length(v.vector)

-- name: collection_rows
-- The other columns are those of the chunk with the smallest number.
SELECT c.digest, v.vector, w.ns, f.path, c.start_line AS first_line, c.end_line AS last_line, c.heading, c.text,
       m.role, m.kind, m.tier, m.tags, m.date, COALESCE(c.language, '') AS language, COUNT(*) AS copies, MIN(c.id),
       iif((SELECT COUNT(*) FROM files o WHERE o.workspace = f.workspace AND o.stem = f.stem) > 1, f.path, f.stem)
           || iif(m.slug > '', '#' || m.slug, '') AS key
FROM json_each(:digests) j
CROSS JOIN vectors v ON v.model = :model AND v.digest = j.value
-- The plus keeps SQLite from going through all chunks of the workspace for each text.
CROSS JOIN chunks c ON c.digest = v.digest AND +c.workspace = :workspace
JOIN workspaces w ON w.id = c.workspace
JOIN memories m ON m.id = c.memory AND m.deleted IS NULL
JOIN files f ON f.id = c.file
WHERE (w.remote OR length(v.vector)) AND {whole}
GROUP BY c.digest

-- name: chunks_of
SELECT c.digest, c.id FROM json_each(?) j CROSS JOIN chunks c ON c.digest = j.value
-- The plus, as above.
WHERE +c.workspace = ?

-- name: empty
UPDATE vectors SET vector = x''
WHERE model = ? AND digest AMONG ? AND NOT EXISTS (
    SELECT 1 FROM chunks c JOIN workspaces w ON w.id = c.workspace WHERE c.digest = vectors.digest AND NOT w.remote)

-- name: any_multilingual
SELECT EXISTS (SELECT 1 FROM chunks WHERE language > '') OR EXISTS (SELECT 1 FROM workspaces WHERE polyglot)

-- name: sweep
DELETE FROM vectors WHERE digest NOT IN (SELECT digest FROM chunks)
