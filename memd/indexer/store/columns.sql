-- The statements of columns.py, each below its name.

-- name: ranked
SELECT
    c.memory, c.start_line, c.id, c.file, m.date, m.role, m.kind, m.tier, NULLIF(m.declared, :nothing),
    CASE WHEN m.deleted IS NULL THEN COALESCE(m.expires, :never) END,
    -- Until then a later memory says what is true now.
    (
        SELECT MAX(COALESCE(n.expires, :never)) FROM edges e JOIN memories n ON n.id = e.one
        WHERE e.other = m.id AND e.rel = 'refines' AND e.removed = 0 AND n.file IS NOT NULL AND n.deleted IS NULL
    )
FROM chunks c CROSS JOIN memories m ON m.id = c.memory
WHERE {which}

-- name: changed
-- How long a memory is outdated also depends on what refines it.
SELECT memory, file FROM changed WHERE number > ?1
UNION
SELECT e.other, NULL FROM changed c CROSS JOIN edges e ON e.one = c.memory AND e.rel = 'refines' WHERE c.number > ?1

-- name: files
SELECT id, path, stem FROM files f WHERE {which}
