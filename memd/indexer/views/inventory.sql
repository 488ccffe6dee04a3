-- name: days
-- The day of each memory, the newest first.
SELECT date FROM memories WHERE file IS NOT NULL AND deleted IS NULL AND workspace AMONG ? ORDER BY date DESC

-- name: roles
SELECT role, COUNT(*) FROM memories WHERE file IS NOT NULL AND workspace AMONG ? GROUP BY role ORDER BY role

-- name: stamped
-- The first chunks of memories that may have a stamp.
SELECT m.id, c.text FROM json_each(?) JOIN memories m ON m.id = value
JOIN chunks c ON c.memory = m.id AND c.start_line = m.start_line
WHERE instr(char(10) || c.text, char(10) || '_')

-- name: texts
SELECT c.memory, c.text, c.start_line = m.start_line FROM chunks c JOIN memories m ON m.id = c.memory
WHERE c.workspace = :workspace AND {alive} AND {which}

-- name: titles
SELECT m.id, CASE m.heading WHEN '' THEN f.stem ELSE m.heading END AS title
FROM memories m JOIN files f ON f.id = m.file
WHERE m.workspace = :workspace AND {alive} AND EXISTS (SELECT 1 FROM chunks WHERE memory = m.id) AND {which}
