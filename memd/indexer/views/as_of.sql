-- name: current
-- The version of each memory that was current; the first one counts from the date of its note if that is earlier.
WITH spans AS (
  SELECT v.*, LEAD(v.at) OVER (PARTITION BY v.memory ORDER BY v.number) AS until
  FROM main.versions v JOIN main.memories m ON m.id = v.memory WHERE m.workspace = :workspace
),
found AS (
  SELECT s.memory, s.number, s.at, s.who, s.digest, s.heading, s.until IS NULL AS now, m.heading AS heading_now,
    -- The facts of earlier times are known by the versions alone.
    s.until < (SELECT value FROM main.meta WHERE key = 'facts_since') AS before_facts,
    p.path AS path_now, s.path AS path_seen, f.path AS path_then, COALESCE(f.slug, m.slug) AS slug,
    COALESCE(f.date, m.date) AS date, IIF(f.memory, f.expires, m.expires) AS expires,
    IIF(f.memory, f.deleted, m.deleted) AS deleted
  FROM spans s JOIN main.memories m ON m.id = s.memory LEFT JOIN main.files p ON p.id = m.file
  LEFT JOIN main.facts f
  ON f.memory = m.id AND f.until = (SELECT MIN(until) FROM main.facts WHERE memory = m.id AND until > :at)
  WHERE s.digest IS NOT NULL AND (s.until IS NULL OR s.until > :at)
)
SELECT *, COALESCE(path_then, IIF(before_facts, NULL, path_now), path_seen) AS path FROM found
WHERE (at <= :at OR (number = 1 AND date <> '' AND date <= :day))
AND (expires IS NULL OR expires > :at) AND (deleted IS NULL OR deleted > :at)

-- name: tell_facts
UPDATE temp.memories SET (slug, kind, tier, date, tags, declared) = (
  SELECT slug, kind, tier, date, tags, declared
  FROM main.facts WHERE memory = memories.id AND until > ?1 ORDER BY until LIMIT 1
) WHERE EXISTS (SELECT 1 FROM main.facts WHERE memory = memories.id AND until > ?1)

-- name: add_chunk
INSERT INTO temp.chunks (id, workspace, file, memory, start_line, end_line, heading, context, text, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: place_memory
UPDATE temp.memories SET file = ?, slug = ?, heading = ?, gone = NULL WHERE id = ?

-- name: add_file
INSERT INTO temp.files (id, workspace, path, stem, problem) VALUES (?, ?, ?, ?, '')
