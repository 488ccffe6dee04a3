-- name: by_number
SELECT m.id, m.workspace, m.slug, m.gone, COALESCE(f.path, v.path) AS path
FROM memories m LEFT JOIN files f ON f.id = m.file JOIN versions v ON v.memory = m.id
WHERE m.id = ? ORDER BY v.number DESC LIMIT 1

-- name: actions
WITH RECURSIVE
wanted(id) AS (SELECT value FROM json_each(:memories)),
undos(id, undid) AS MATERIALIZED (SELECT id, CAST(key AS INTEGER) FROM actions WHERE what = 'undo'),
-- What was done to some memories, by key, versions, lives and their files' names; and what undid that.
about(id) AS (
  SELECT id FROM actions WHERE key = :key AND what <> 'undo'
  UNION SELECT action FROM versions WHERE memory IN wanted
  UNION SELECT action FROM shifts WHERE memory IN wanted
  UNION SELECT a.id FROM actions a, json_each(a.detail, '$.paths') AS path WHERE a.what = :renamed AND path.value IN
    (SELECT f.path FROM files f JOIN memories m ON m.file = f.id WHERE m.id IN wanted AND f.workspace = a.workspace)
  UNION SELECT undos.id FROM undos JOIN about ON undos.undid = about.id
)
SELECT a.*, a.state = 'done' AND a.undone IS NULL AND (
  EXISTS (SELECT 1 FROM splices s WHERE s.action = a.id) OR EXISTS (SELECT 1 FROM shifts h WHERE h.action = a.id)
) AS undoable
FROM actions a WHERE (a.workspace IS NULL OR a.workspace AMONG :workspaces)
AND (:who = '' OR a.who = :who OR substr(a.who, 1, length(:who) + 1) = :who || ':')
AND (:what = '' OR a.what = :what) AND a.at >= :since
AND (:memories IS NULL OR a.id IN (SELECT id FROM about)) ORDER BY a.at DESC, a.id DESC

-- name: times_of_edits
SELECT DISTINCT v.at, m.workspace FROM versions v JOIN memories m ON m.id = v.memory
WHERE v.who = 'editor' AND v.action IS NULL AND v.at >= :since AND m.workspace AMONG :workspaces
AND (:memories IS NULL OR m.id AMONG :memories) ORDER BY v.at DESC

-- name: edited
SELECT v.number, v.digest, v.path, m.slug FROM versions v JOIN memories m ON m.id = v.memory
WHERE v.at = ? AND m.workspace = ? AND v.who = 'editor' AND v.action IS NULL ORDER BY v.path, m.start_line

-- name: action
-- The one with a number; without a number, the last change that someone made and nobody undid. To bring back what an
-- editor removed is such a change, though it is written down as an undo.
SELECT a.*,
  EXISTS (SELECT 1 FROM splices s WHERE s.action = a.id) AS spliced,
  EXISTS (SELECT 1 FROM shifts h WHERE h.action = a.id) AS shifted
FROM actions a WHERE a.workspace AMONG :workspaces AND (a.id = :id OR (
  :id = 0 AND a.who = :who AND a.who NOT LIKE 'job:%' AND a.who <> 'editor'
  AND (a.what <> 'undo' OR 'editor' = (SELECT who FROM actions WHERE id = CAST(a.key AS INTEGER)))
  AND a.state = 'done' AND a.undone IS NULL AND (spliced OR shifted)
)) ORDER BY a.id DESC LIMIT 1

-- name: forgotten_since
-- The last change that someone made after another one, if it is forgotten for good.
SELECT id FROM actions WHERE workspace AMONG :workspaces AND who = :who AND key = :purged AND id > :id
AND state = 'done' AND what <> 'undo' ORDER BY id DESC LIMIT 1

-- name: changed_since
SELECT a.who || ' (' || a.what || ', action ' || a.id || ')' AS name, a.at AS at
FROM actions a JOIN splices s ON s.action = a.id
WHERE a.id > :id AND a.workspace = :workspace AND a.state = 'done'
AND s.path IN (SELECT path FROM splices WHERE action = :id)
UNION SELECT 'an editor', v.at FROM versions v JOIN memories m ON m.id = v.memory
WHERE m.workspace = :workspace AND v.who = 'editor' AND v.at > (SELECT at FROM actions WHERE id = :id)
AND v.path IN (SELECT path FROM splices WHERE action = :id)
ORDER BY at DESC LIMIT 3

-- name: gone
-- The memories that are gone and of which a text is kept, each as it was last.
SELECT m.id, m.workspace, m.slug, m.heading, m.digest, m.gone, v.path, v.who, v.action, v.number,
  (SELECT MAX(t.number) FROM versions t JOIN texts x ON x.digest = t.digest WHERE t.memory = m.id) AS text
FROM memories m JOIN versions v ON v.memory = m.id
AND v.number = (SELECT MAX(number) FROM versions WHERE memory = m.id)
WHERE m.gone IS NOT NULL AND m.workspace AMONG :workspaces AND text IS NOT NULL ORDER BY m.gone DESC, m.id DESC

-- name: lost
SELECT a.id, a.at, a.what, s.path, s."before" FROM actions a JOIN splices s ON s.action = a.id
WHERE a.workspace = :workspace AND a.what AMONG :losses AND a.undone IS NULL
AND (:path = '' OR s.path = :path) ORDER BY a.id DESC
