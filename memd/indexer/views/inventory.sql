-- name: days
-- The days of memories, the newest first, and how many each has.
SELECT date, COUNT(*) FROM memories WHERE file IS NOT NULL AND deleted IS NULL AND workspace AMONG ?
GROUP BY date ORDER BY date DESC

-- name: roles
-- Counted by workspace first, in the order of the index.
SELECT role, SUM(memories) FROM (
  SELECT role, COUNT(*) AS memories FROM memories WHERE file IS NOT NULL AND workspace AMONG ? GROUP BY workspace, role
) GROUP BY role ORDER BY role

-- name: stamped
-- The first chunks of memories that may have a stamp.
SELECT m.id, c.text FROM json_each(?) JOIN memories m ON m.id = value
JOIN chunks c ON c.memory = m.id AND c.start_line = m.start_line
WHERE instr(char(10) || c.text, char(10) || '_')

-- name: begins
-- With MIN, SQLite takes the other columns from the row that has the minimum.
SELECT memory, text FROM (SELECT memory, text, MIN(start_line) FROM chunks WHERE memory AMONG ? GROUP BY memory)

-- name: texts
SELECT c.memory, c.text, c.start_line = m.start_line FROM chunks c JOIN memories m ON m.id = c.memory
WHERE c.workspace = :workspace AND {alive} AND {which}

-- name: titles
SELECT m.id, m.heading AS title FROM memories m
WHERE m.workspace = :workspace AND {alive} AND EXISTS (SELECT 1 FROM chunks WHERE memory = m.id) AND {which}
