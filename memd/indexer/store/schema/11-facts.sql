-- Where each memory stood and what was told of it before that changed, for answers as of then.

CREATE TABLE facts (
    memory INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    until TEXT NOT NULL,
    path TEXT NOT NULL,
    slug TEXT NOT NULL,
    kind TEXT NOT NULL,
    tier TEXT NOT NULL,
    date TEXT NOT NULL,
    tags TEXT NOT NULL,                         -- a JSON list
    declared TEXT NOT NULL,                     -- a JSON object
    expires TEXT,
    deleted TEXT,
    PRIMARY KEY (memory, until)
) WITHOUT ROWID;
-- Of two changes at one moment the first one has the facts from before.
CREATE TRIGGER facts_changed AFTER UPDATE OF file, slug, kind, tier, date, tags, declared, expires, deleted ON memories
WHEN (old.file, old.slug, old.kind, old.tier, old.date, old.tags, old.declared, old.expires, old.deleted)
    IS NOT (new.file, new.slug, new.kind, new.tier, new.date, new.tags, new.declared, new.expires, new.deleted) BEGIN
    INSERT OR IGNORE INTO facts
    SELECT old.id, CASE WHEN old.digest = new.digest THEN strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now') ELSE new.changed END,
        path, old.slug, old.kind, old.tier, old.date, old.tags, old.declared, old.expires, old.deleted
    FROM files WHERE id = old.file;
END;

INSERT INTO meta VALUES ('facts_since', strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now'));
