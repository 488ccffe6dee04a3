-- name: current
-- The version of each memory that was current; the first one counts from the date of its note if that is earlier.
WITH spans AS (
  SELECT v.*, LEAD(v.at) OVER (PARTITION BY v.memory ORDER BY v.number) AS until
  FROM main.versions v JOIN main.memories m ON m.id = v.memory WHERE m.workspace = :workspace
)
SELECT s.memory, s.number, s.at, s.who, s.digest, s.path, s.heading, s.until IS NULL AS now, m.slug, m.date,
  m.heading AS heading_now
FROM spans s JOIN main.memories m ON m.id = s.memory
WHERE s.digest IS NOT NULL AND (s.until IS NULL OR s.until > :at)
AND (s.at <= :at OR (s.number = 1 AND m.date <> '' AND m.date <= :day))
AND (m.expires IS NULL OR m.expires > :at) AND (m.deleted IS NULL OR m.deleted > :at)

-- name: add_chunk
INSERT INTO temp.chunks (id, workspace, file, memory, start_line, end_line, heading, context, text, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: place_memory
UPDATE temp.memories SET file = ?, slug = ?, heading = ?, gone = NULL WHERE id = ?

-- name: add_file
INSERT INTO temp.files (id, workspace, path, stem, problem) VALUES (?, ?, ?, ?, '')
