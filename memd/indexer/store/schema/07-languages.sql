-- Languages.

ALTER TABLE chunks ADD COLUMN language TEXT;    -- NULL: not looked at; empty: English, or nothing shows it
CREATE INDEX chunks_foreign ON chunks (workspace) WHERE language > '';
CREATE INDEX chunks_unread ON chunks (id) WHERE language IS NULL;
ALTER TABLE workspaces ADD COLUMN polyglot INTEGER NOT NULL DEFAULT 0;   -- 1: asked in another language
