-- name: shown_to
SELECT client, hour FROM accesses WHERE memory = ? AND counted ORDER BY hour DESC, client LIMIT ?
