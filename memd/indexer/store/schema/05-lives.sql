-- How memories live: what was observed of them, what links them, and how it changed.

ALTER TABLE memories ADD COLUMN accesses INTEGER NOT NULL DEFAULT 0;     -- as the last reflect counted them
ALTER TABLE memories ADD COLUMN days INTEGER NOT NULL DEFAULT 0;         -- on how many days
ALTER TABLE memories ADD COLUMN accessed TEXT;                           -- the last time
ALTER TABLE memories ADD COLUMN useful INTEGER NOT NULL DEFAULT 0;       -- how often someone said so
ALTER TABLE memories ADD COLUMN importance REAL NOT NULL DEFAULT 0.5;    -- as fading has left it
ALTER TABLE memories ADD COLUMN moved TEXT;                              -- when its tier last changed
ALTER TABLE memories ADD COLUMN moved_by TEXT NOT NULL DEFAULT '';       -- rule:<name>, or who
ALTER TABLE memories ADD COLUMN moved_why TEXT NOT NULL DEFAULT '';
ALTER TABLE memories ADD COLUMN home TEXT NOT NULL DEFAULT '';           -- the tier before that
ALTER TABLE memories ADD COLUMN compared TEXT NOT NULL DEFAULT '';       -- the digest that was compared with others
UPDATE memories SET importance = COALESCE(json_extract(declared, '$.importance'), 0.5);
CREATE INDEX versions_at ON versions (at);
CREATE INDEX memories_useful ON memories (workspace) WHERE useful > 0;
CREATE INDEX memories_gone ON memories (workspace, gone) WHERE gone IS NOT NULL;
CREATE INDEX memories_uncompared ON memories (workspace) WHERE compared <> digest;
CREATE INDEX memories_kept ON memories (workspace, role, date, tier, kind, file, expires);
CREATE INDEX memories_pinned ON memories (workspace) WHERE json_extract(declared, '$.pinned') = 1;

CREATE TABLE accesses (
    memory INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    client TEXT NOT NULL,
    hour TEXT NOT NULL,                         -- YYYY-MM-DDTHH in UTC: once per memory, client and hour
    counted INTEGER NOT NULL DEFAULT 0,         -- a reflect has added it up
    PRIMARY KEY (memory, client, hour)
) WITHOUT ROWID;

CREATE TABLE together (
    one INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,     -- the smaller number
    other INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    client TEXT NOT NULL,
    hour TEXT NOT NULL,
    counted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (one, other, client, hour)
) WITHOUT ROWID;

CREATE TABLE edges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    one INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    other INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    rel TEXT NOT NULL,
    base REAL NOT NULL,                         -- the weight that it was made with, strengthened by use
    weight REAL NOT NULL,                       -- the same as fading has left it
    origin TEXT NOT NULL,                       -- declared, written, tag, similar, merged
    made TEXT NOT NULL,
    accesses INTEGER NOT NULL DEFAULT 0,        -- how often both came up together
    accessed TEXT,
    removed INTEGER NOT NULL DEFAULT 0,         -- 1: someone took it away, it is not made again; 2: it faded away
    UNIQUE (one, other, rel)
);
CREATE INDEX edges_other ON edges (other);
CREATE INDEX edges_workspace ON edges (workspace);

CREATE TABLE mentions (
    memory INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    rel TEXT NOT NULL,
    target TEXT NOT NULL,                       -- a key, a name or a path, folded to lower case
    origin TEXT NOT NULL,                       -- declared, written
    weight REAL,
    found INTEGER REFERENCES memories (id) ON DELETE SET NULL,   -- what it was last found to name
    PRIMARY KEY (memory, rel, target)
) WITHOUT ROWID;
CREATE INDEX mentions_target ON mentions (target);
CREATE INDEX mentions_found ON mentions (found);

CREATE TABLE names (
    name TEXT NOT NULL,                         -- folded to lower case
    memory INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    rank INTEGER NOT NULL,                      -- 0: its key, 1: an alias, 2: its title, 3: a #tag
    PRIMARY KEY (name, memory)
) WITHOUT ROWID;
CREATE INDEX names_memory ON names (memory);

CREATE TABLE shifts (
    action INTEGER NOT NULL REFERENCES actions (id) ON DELETE CASCADE,
    nth INTEGER NOT NULL,
    memory INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    what TEXT NOT NULL,                         -- tier, useful, edge
    "before" TEXT NOT NULL,                     -- JSON
    "after" TEXT NOT NULL,
    PRIMARY KEY (action, nth)
) WITHOUT ROWID;
CREATE INDEX shifts_memory ON shifts (memory);

CREATE TABLE jobs (
    name TEXT PRIMARY KEY,
    last TEXT NOT NULL,                         -- when it last began
    took_ms REAL NOT NULL,
    result TEXT NOT NULL
) WITHOUT ROWID;
