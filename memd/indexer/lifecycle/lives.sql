-- name: lives
-- With a time, as the next reflection will leave them: all accesses are counted, the last one at the end of its hour.
SELECT m.id, m.tier, m.kind, m.role, m.first_seen, m.tags, m.declared, m.importance, m.useful, m.moved, m.moved_by, m.home,
  m.deleted,
  m.accesses + COUNT(a.hour) AS accesses,
  m.days + COUNT(DISTINCT CASE WHEN substr(a.hour, 1, 10) > COALESCE(substr(m.accessed, 1, 10), '')
                          THEN substr(a.hour, 1, 10) END) AS days,
  MAX(COALESCE(m.accessed, ''), COALESCE(MIN(MAX(a.hour) || ':59:59.999+00:00', :now), '')) AS accessed,
  (SELECT COALESCE(MAX(o.accesses), 0) FROM edges e
   JOIN memories o ON o.id = CASE e.rel WHEN 'refines' THEN e.other ELSE e.one END
   WHERE NOT e.removed AND e.origin = 'rule'
   AND ((e.one = m.id AND e.rel = 'refines') OR (e.other = m.id AND e.rel = 'merged_into'))) AS inherited,
  EXISTS (SELECT 1 FROM edges e JOIN memories k ON k.id = e.other
          WHERE e.one = m.id AND e.rel = 'merged_into' AND NOT e.removed AND k.file IS NOT NULL) AS merged
FROM memories m LEFT JOIN accesses a ON a.memory = m.id AND NOT a.counted AND :now <> ''
WHERE {which} GROUP BY m.id ORDER BY m.id LIMIT :most

-- name: shown_together
-- Only linked pairs: others have nothing to strengthen.
INSERT OR IGNORE INTO together (one, other, client, hour) SELECT ?1, ?2, ?3, ?4
WHERE EXISTS (SELECT 1 FROM edges WHERE (one = ?1 AND other = ?2) OR (one = ?2 AND other = ?1))

-- name: uncounted
SELECT DISTINCT a.memory FROM accesses a JOIN memories m ON m.id = a.memory
WHERE m.workspace = ? AND a.memory > ? AND NOT a.counted ORDER BY a.memory LIMIT ?

-- name: told_counts
SELECT a.memory, COUNT(*) FROM accesses a
WHERE (a.client, a.hour) IN (SELECT who, substr(at, 1, 13) FROM actions WHERE workspace = ? AND what = 'useful')
GROUP BY a.memory

-- name: found_useful
UPDATE memories SET useful = useful + 1 WHERE id = ? RETURNING useful

-- name: any_useful
SELECT 1 FROM memories WHERE workspace = ? AND useful > 0 LIMIT 1

-- name: shown
INSERT OR IGNORE INTO accesses (memory, client, hour) SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM memories WHERE id = ?1)
