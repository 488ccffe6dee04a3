-- The statements of catalog.py, each below its name.

-- name: save_workspace
INSERT INTO workspaces (id, ns, root) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET ns = excluded.ns, root = excluded.root RETURNING id

-- name: first_foreign
SELECT c.language, f.path, c.start_line
FROM chunks c JOIN files f ON f.id = c.file
WHERE c.workspace = ? AND c.language > ''
ORDER BY c.id LIMIT 1

-- name: counts
SELECT
    (SELECT COUNT(*) FROM files WHERE workspace = :w AND (problem = '' OR digest <> '')) AS files,
    -- The index covers the query: `status` asks often.
    (SELECT COUNT(*) FROM memories INDEXED BY memories_kept WHERE workspace = :w AND file IS NOT NULL) AS memories,
    (SELECT COUNT(*) FROM chunks WHERE workspace = :w) AS chunks

-- name: expected_text
SELECT text_dirty, (SELECT COUNT(*) FROM chunks WHERE workspace = w.id) FROM workspaces w WHERE id = ?

-- name: files
SELECT id, path, size, mtime_ns, ctime_ns, inode, digest, racy, problem FROM files WHERE workspace = ?

-- name: files_stamp
SELECT COUNT(*), IFNULL(MAX(id), 0) FROM files WHERE workspace = ?

-- name: problems
SELECT path, problem, digest <> '' FROM files WHERE workspace = ? AND problem <> ''

-- name: save_file
INSERT INTO files (workspace, path, stem, size, mtime_ns, ctime_ns, inode, digest, racy, problem)
VALUES (:workspace, :path, :stem, :size, :mtime_ns, :ctime_ns, :inode, :digest, :racy, :problem)
ON CONFLICT (workspace, path) DO UPDATE SET
    size = :size, mtime_ns = :mtime_ns, ctime_ns = :ctime_ns, inode = :inode, digest = :digest, racy = :racy,
    problem = :problem
RETURNING id

-- name: memories_of
SELECT id, file, slug, digest, body FROM memories WHERE file = ? ORDER BY start_line

-- name: gone_memories
SELECT
    id, file, slug, digest, body,
    (SELECT json_group_array(v.path) FROM versions v WHERE v.memory = m.id)
FROM memories m
WHERE id IN (
    SELECT id FROM memories WHERE workspace = :workspace AND digest = :digest
    UNION
    SELECT memory FROM versions WHERE digest = :digest
)
-- By the text, not by what is gone: a switch of branches leaves thousands of those.
AND +workspace = :workspace AND +gone IS NOT NULL
ORDER BY gone DESC

-- name: just_gone
SELECT v.path, m.id, m.file, m.slug, m.digest, m.body
FROM memories m JOIN versions v ON v.memory = m.id JOIN actions a ON a.id = v.action
WHERE m.workspace = ? AND m.gone >= ? AND v.at = m.gone AND a.who = 'editor'
ORDER BY m.start_line

-- name: save_memory
INSERT INTO memories (
    id, workspace, file, slug, heading, start_line, end_line, digest, body, kind, tier, role, date, tags, declared,
    expires, importance, first_seen, changed
)
VALUES (
    :id, :workspace, :file, :slug, :heading, :start_line, :end_line, :digest, :body, :kind, :tier, :role, :date, :tags,
    :declared, :expires, :importance, :now, :now
)
ON CONFLICT (id) DO UPDATE SET
    changed = CASE WHEN digest = :digest THEN changed ELSE :now END, gone = NULL, file = :file, slug = :slug,
    heading = :heading, start_line = :start_line, end_line = :end_line, digest = :digest, body = :body,
    kind = :kind, role = :role, tags = :tags, declared = :declared, expires = :expires,
    date = CASE
        WHEN digest = :digest AND date > '' AND :date = :written AND :role <> 'daily' THEN MIN(date, :date) ELSE :date
    END,
    -- A new text is a new answer, whatever was thought of the old one.
    deleted = CASE WHEN digest = :digest THEN deleted END,
    -- Fading goes on from the declared importance; only another declaration resets it.
    importance = CASE
        WHEN json_extract(declared, '$.importance') IS json_extract(:declared, '$.importance') THEN importance
        ELSE :importance
    END
RETURNING id

-- name: chunks_of
SELECT id, memory, digest FROM chunks WHERE memory AMONG ? ORDER BY id

-- name: add_chunk
INSERT INTO chunks (workspace, file, memory, start_line, end_line, heading, context, text, digest, language)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: move_chunk
UPDATE chunks SET file = ?, memory = ?, start_line = ?, end_line = ? WHERE id = ?
