-- name: forget_removal
DELETE FROM versions WHERE memory = ?1 AND digest IS NULL
AND number = (SELECT MAX(number) FROM versions WHERE memory = ?1)

-- name: authors
SELECT v.memory, v.who FROM versions v WHERE v.memory AMONG ? AND {by_others}
GROUP BY v.memory, v.who ORDER BY v.memory, MIN(v.number)

-- name: authors_at
SELECT DISTINCT v.who FROM files f JOIN memories m ON m.file = f.id JOIN versions v ON v.memory = m.id
WHERE f.workspace = ? AND f.path = ? AND m.start_line <= ? AND m.end_line >= ? AND {by_others} ORDER BY 1

-- name: expire
-- The last two versions of every memory stay: the current one (or its removal) and the one before.
DELETE FROM versions
WHERE EXISTS (SELECT 1 FROM versions n WHERE n.memory = versions.memory AND n.number = versions.number + 1 AND n.at < ?)
AND number < (SELECT MAX(number) - 1 FROM versions l WHERE l.memory = versions.memory)

-- name: latest
SELECT * FROM versions WHERE memory = ? ORDER BY number DESC LIMIT 1
