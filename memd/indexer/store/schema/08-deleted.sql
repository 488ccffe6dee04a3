-- What someone or a rule deleted is in no answer; its text stays in its file.

ALTER TABLE memories ADD COLUMN deleted TEXT;   -- since when; NULL: it is not
DROP INDEX memories_kept;
CREATE INDEX memories_kept ON memories (workspace, role, date, tier, kind, file, expires, deleted);
