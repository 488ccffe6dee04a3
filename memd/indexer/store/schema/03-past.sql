-- What was done, by whom, and every text that a memory ever had.

CREATE TABLE actions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    workspace INTEGER REFERENCES workspaces (id) ON DELETE CASCADE,
    who TEXT NOT NULL,                          -- cli, editor, mcp:<client>, job:<name>
    what TEXT NOT NULL,
    key TEXT NOT NULL DEFAULT '',
    request TEXT,                               -- the caller's own number, so that a repeated call is one deed
    state TEXT NOT NULL,                        -- begun, done, failed
    detail TEXT NOT NULL DEFAULT '{}',          -- a JSON object
    undone INTEGER                              -- the action that took it back
);
CREATE UNIQUE INDEX actions_request ON actions (request) WHERE request IS NOT NULL AND state = 'done';
CREATE INDEX actions_workspace ON actions (workspace, id);

CREATE TABLE splices (
    action INTEGER NOT NULL REFERENCES actions (id) ON DELETE CASCADE,
    nth INTEGER NOT NULL,
    path TEXT NOT NULL,
    start INTEGER NOT NULL,
    removed BLOB NOT NULL,                      -- compressed
    inserted BLOB NOT NULL,                     -- compressed
    "before" TEXT,                              -- the file's digest; NULL: there was none
    "after" TEXT,
    leading BLOB NOT NULL,
    trailing BLOB NOT NULL,
    PRIMARY KEY (action, nth)
) WITHOUT ROWID;
CREATE INDEX splices_path ON splices (path);

CREATE TABLE texts (
    digest TEXT PRIMARY KEY,
    body BLOB NOT NULL                          -- compressed
) WITHOUT ROWID;

CREATE TABLE versions (
    memory INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    action INTEGER,
    digest TEXT,                                -- NULL: it went from the files
    path TEXT NOT NULL,
    heading TEXT NOT NULL,
    PRIMARY KEY (memory, number)
) WITHOUT ROWID;
CREATE INDEX versions_digest ON versions (digest);

ALTER TABLE memories ADD COLUMN expires TEXT;   -- when its ttl runs out; NULL: never
