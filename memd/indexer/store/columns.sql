-- The statements of columns.py, each below its name.

-- name: ranked
SELECT
    c.memory, c.start_line, c.id, c.file, m.date, m.role, m.kind, m.tier, NULLIF(m.declared, :nothing),
    m.deleted, m.expires,
    -- A later memory says what is true now.
    EXISTS (
        SELECT 1 FROM edges e JOIN memories n ON n.id = e.one
        WHERE e.other = m.id AND e.rel = 'refines' AND e.removed = 0 AND n.file IS NOT NULL AND n.deleted IS NULL
    )
FROM chunks c CROSS JOIN memories m ON m.id = c.memory
WHERE {which}

-- name: changed
SELECT memory, file FROM changed WHERE number > ?

-- name: files
SELECT id, path, stem FROM files f WHERE {which}
