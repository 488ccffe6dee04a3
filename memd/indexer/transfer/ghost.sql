-- The statements of ghost.py, each below its name.

-- name: is_ghost
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'memory_edges'

-- name: memories
-- All versions of what was not deleted; a memory that was deleted and put again begins anew.
SELECT * FROM memories WHERE deleted_at IS NULL ORDER BY ns, key, version

-- name: edges
SELECT * FROM memory_edges WHERE rel <> 'merged_into' ORDER BY created_at, from_id, to_id, rel
