-- What the collections have to be told, and which workspaces have their vectors in a server.

ALTER TABLE workspaces ADD COLUMN remote INTEGER NOT NULL DEFAULT 0;   -- 1: its vectors are in the Chroma server alone
ALTER TABLE workspaces DROP COLUMN vectors_dirty;

CREATE TABLE unsent (
    id INTEGER PRIMARY KEY AUTOINCREMENT,       -- what is sent is deleted up to a number
    workspace INTEGER NOT NULL,
    digest TEXT NOT NULL                        -- of a text whose row may differ from the ledger
);

CREATE TRIGGER vector_made AFTER INSERT ON vectors BEGIN
    INSERT INTO unsent (workspace, digest) SELECT DISTINCT workspace, digest FROM chunks WHERE digest = new.digest;
END;

-- A text without a vector is told of when it gets one.
CREATE TRIGGER chunk_made AFTER INSERT ON chunks
WHEN EXISTS (SELECT 1 FROM models m CROSS JOIN vectors v ON v.model = m.id AND v.digest = new.digest) BEGIN
    INSERT INTO unsent (workspace, digest) VALUES (new.workspace, new.digest);
END;
CREATE TRIGGER chunk_gone AFTER DELETE ON chunks
WHEN EXISTS (SELECT 1 FROM models m CROSS JOIN vectors v ON v.model = m.id AND v.digest = old.digest) BEGIN
    INSERT INTO unsent (workspace, digest) VALUES (old.workspace, old.digest);
END;
CREATE TRIGGER chunk_changed AFTER UPDATE OF memory, file, start_line, end_line, language ON chunks
WHEN (old.memory, old.file, old.start_line, old.end_line, COALESCE(old.language, ''))
    <> (new.memory, new.file, new.start_line, new.end_line, COALESCE(new.language, ''))
    AND EXISTS (SELECT 1 FROM models m CROSS JOIN vectors v ON v.model = m.id AND v.digest = new.digest) BEGIN
    INSERT INTO unsent (workspace, digest) VALUES (new.workspace, new.digest);
END;
CREATE TRIGGER memory_changed AFTER UPDATE OF slug, kind, tier, role, date, tags, deleted ON memories
WHEN (old.slug, old.kind, old.tier, old.role, old.date, old.tags, COALESCE(old.deleted, ''))
    <> (new.slug, new.kind, new.tier, new.role, new.date, new.tags, COALESCE(new.deleted, '')) BEGIN
    INSERT INTO unsent (workspace, digest) SELECT workspace, digest FROM chunks WHERE memory = new.id;
END;
CREATE TRIGGER file_moved AFTER UPDATE OF path ON files WHEN old.path <> new.path BEGIN
    INSERT INTO unsent (workspace, digest) SELECT workspace, digest FROM chunks WHERE file = new.id;
END;
-- A second file of a name changes the keys of the first.
CREATE TRIGGER name_shared AFTER INSERT ON files
WHEN 2 = (SELECT COUNT(*) FROM (SELECT 1 FROM files WHERE workspace = new.workspace AND stem = new.stem LIMIT 3)) BEGIN
    INSERT INTO unsent (workspace, digest)
    SELECT c.workspace, c.digest FROM files f JOIN chunks c ON c.file = f.id
    WHERE f.workspace = new.workspace AND f.stem = new.stem;
END;
CREATE TRIGGER name_single AFTER DELETE ON files
WHEN 1 = (SELECT COUNT(*) FROM (SELECT 1 FROM files WHERE workspace = old.workspace AND stem = old.stem LIMIT 2)) BEGIN
    INSERT INTO unsent (workspace, digest)
    SELECT c.workspace, c.digest FROM files f JOIN chunks c ON c.file = f.id
    WHERE f.workspace = old.workspace AND f.stem = old.stem;
END;

-- The rows that are there lack their texts.
INSERT INTO unsent (workspace, digest) SELECT DISTINCT workspace, digest FROM chunks;
