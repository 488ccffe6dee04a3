-- What changed of chunks and of what ranks them, so that whoever has them as arrays need not read all of them again.

CREATE TABLE changed (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    memory INTEGER,                             -- the memory whose chunks or whose life changed
    file INTEGER                                -- or the file that came, went, or was renamed
);
CREATE TRIGGER changed_enough AFTER INSERT ON changed WHEN new.number % 4096 = 0 BEGIN
    DELETE FROM changed WHERE number <= new.number - 65536;
END;

CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN INSERT INTO changed (memory) VALUES (new.memory); END;
CREATE TRIGGER chunk_dropped AFTER DELETE ON chunks BEGIN INSERT INTO changed (memory) VALUES (old.memory); END;
CREATE TRIGGER chunk_moved AFTER UPDATE OF memory, file, start_line ON chunks
WHEN (old.memory, old.file, old.start_line) <> (new.memory, new.file, new.start_line) BEGIN
    INSERT INTO changed (memory) VALUES (old.memory), (new.memory);
END;
CREATE TRIGGER memory_ranked AFTER UPDATE OF kind, tier, role, date, declared, expires, deleted ON memories
WHEN (old.kind, old.tier, old.role, old.date, old.declared, old.expires, old.deleted)
    IS NOT (new.kind, new.tier, new.role, new.date, new.declared, new.expires, new.deleted) BEGIN
    INSERT INTO changed (memory) VALUES (new.id);
END;
-- What a memory refines is outdated for as long as that is in the files and was not deleted.
CREATE TRIGGER memory_kept AFTER UPDATE OF file, deleted ON memories
WHEN (old.file IS NULL, old.deleted) IS NOT (new.file IS NULL, new.deleted) BEGIN
    INSERT INTO changed (memory) SELECT other FROM edges WHERE one = new.id AND rel = 'refines';
END;
CREATE TRIGGER refined AFTER INSERT ON edges WHEN new.rel = 'refines' BEGIN
    INSERT INTO changed (memory) VALUES (new.other);
END;
CREATE TRIGGER refined_otherwise AFTER UPDATE OF one, other, rel, removed ON edges
WHEN 'refines' IN (old.rel, new.rel) BEGIN
    INSERT INTO changed (memory) VALUES (old.other), (new.other);
END;
CREATE TRIGGER refined_no_more AFTER DELETE ON edges WHEN old.rel = 'refines' BEGIN
    INSERT INTO changed (memory) VALUES (old.other);
END;
CREATE TRIGGER file_added AFTER INSERT ON files BEGIN INSERT INTO changed (file) VALUES (new.id); END;
CREATE TRIGGER file_renamed AFTER UPDATE OF path, stem ON files WHEN (old.path, old.stem) <> (new.path, new.stem) BEGIN
    INSERT INTO changed (file) VALUES (new.id);
END;
CREATE TRIGGER file_dropped AFTER DELETE ON files BEGIN INSERT INTO changed (file) VALUES (old.id); END;
