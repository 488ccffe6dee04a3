-- The statements of lookup.py, each below its name.

-- name: join
SELECT
    c.id, c.workspace, c.memory, c.start_line, c.end_line, c.heading, c.text, m.slug, m.kind, m.tier, m.role, m.tags,
    m.date, m.heading AS title, m.deleted, f.path, f.stem
FROM json_each(:ids) j
-- CROSS JOIN keeps this order.
CROSS JOIN chunks c ON c.id = j.value
CROSS JOIN memories m ON m.id = c.memory
CROSS JOIN files f ON f.id = c.file
WHERE true

-- name: siblings
SELECT memory, start_line, id FROM chunks WHERE memory IN (SELECT value FROM json_each(:memories))

-- name: parts_of_memory
SELECT text, start_line, end_line FROM chunks WHERE memory = ? ORDER BY start_line, id

-- name: first_chunks
-- With MIN, SQLite takes the other columns from the row that has the minimum.
SELECT id, MIN(start_line) FROM chunks WHERE file AMONG ? GROUP BY file

-- name: shared_stems
SELECT stem FROM files
WHERE workspace = ? AND stem IN (SELECT value FROM json_each(?))
GROUP BY stem HAVING COUNT(*) > 1

-- name: memories
SELECT m.*, f.path, f.stem, f.problem
FROM files f CROSS JOIN memories m ON m.file = f.id
WHERE f.workspace = ? AND f.stem AMONG ? AND ? IN (f.stem, composed(f.path)) AND m.slug = ?
-- With the plus the index of stems finds them, not the one that has this order.
ORDER BY +f.path

-- name: gone
SELECT m.*, v.path
FROM memories m JOIN versions v ON v.memory = m.id
WHERE m.workspace = ? AND m.file IS NULL AND m.slug = ?
AND v.number = (SELECT MAX(number) FROM versions WHERE memory = m.id)

-- name: in_file
SELECT m.*
FROM files f CROSS JOIN memories m ON m.file = f.id
WHERE f.workspace = ? AND f.path = ?
ORDER BY m.start_line

-- name: chunks_at
SELECT c.id, c.start_line, c.end_line
FROM chunks c JOIN files f ON f.id = c.file
WHERE f.workspace = ? AND f.path = ?
ORDER BY c.start_line, c.end_line, c.id
