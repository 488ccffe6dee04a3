-- name: begin
INSERT INTO actions (at, workspace, who, what, key, request, state, detail) VALUES (?, ?, ?, ?, ?, ?, 'begun', ?)

-- name: touching
-- By the path first: there may be thousands of actions, and a few that touched this file.
SELECT a.id, a.who, s."after", s.inserted, s.removed FROM splices s CROSS JOIN actions a ON a.id = s.action
WHERE a.workspace = ? AND s.path = ? AND a.at >= ? AND a.state <> 'failed' ORDER BY a.id DESC LIMIT 200

-- name: done_to
SELECT s.* FROM splices s CROSS JOIN actions a ON a.id = s.action
WHERE a.workspace = ? AND s.path = ? AND a.state = 'done' ORDER BY s.action DESC, s.nth DESC

-- name: rewrote
SELECT 1 FROM splices s CROSS JOIN actions a ON a.id = s.action
WHERE a.workspace = ? AND s.path = ? AND s."after" = ? AND a.state <> 'failed'
  AND a.what IN ('put', 'patch', 'undo', 'restore')
LIMIT 1

-- name: keep_change
INSERT INTO shifts (action, nth, memory, what, "before", "after") VALUES (?, ?, ?, ?, ?, ?)

-- name: keep_splice
INSERT OR REPLACE INTO splices (action, nth, path, start, removed, inserted, "before", "after", leading, trailing)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_proposal
INSERT INTO proposals (workspace, at, who, method, params, digest) VALUES (?, ?, ?, ?, ?, ?)

-- name: finish
UPDATE actions SET state = ?, detail = ? WHERE id = ?

-- name: by_request
SELECT * FROM actions WHERE request = ? AND state = 'done'

-- name: begun
SELECT * FROM actions WHERE workspace = ? AND state = 'begun' ORDER BY id

-- name: keep_run
INSERT OR REPLACE INTO jobs (name, last, took_ms, result) VALUES (?, ?, ?, ?)

-- name: same_proposal
SELECT id FROM proposals WHERE workspace = ? AND digest = ?

-- name: waiting_proposals
SELECT * FROM proposals WHERE workspace AMONG ? ORDER BY id
