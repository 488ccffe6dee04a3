-- The spine: workspaces, files, memories, chunks and their vectors.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE workspaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ns TEXT NOT NULL UNIQUE,
    root TEXT NOT NULL,
    text_dirty INTEGER NOT NULL DEFAULT 1,      -- the text index may differ from the chunks
    vectors_dirty INTEGER NOT NULL DEFAULT 1,   -- the collection may differ from the vectors
    changed TEXT                                -- when a file last changed
);

CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    stem TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    digest TEXT NOT NULL,
    racy INTEGER NOT NULL DEFAULT 0,            -- read so soon after a change that another may hide in it
    problem TEXT NOT NULL DEFAULT '',           -- why it is left out, or why the entry is old
    UNIQUE (workspace, path)
);
CREATE INDEX files_stem ON files (workspace, stem);

CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    file INTEGER REFERENCES files (id) ON DELETE SET NULL,   -- NULL: gone from the files
    slug TEXT NOT NULL,
    heading TEXT NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    digest TEXT NOT NULL,                       -- of the text
    body TEXT NOT NULL,                         -- of the text without its heading
    kind TEXT NOT NULL,
    tier TEXT NOT NULL,
    role TEXT NOT NULL,
    date TEXT NOT NULL,
    tags TEXT NOT NULL,                         -- a JSON list
    declared TEXT NOT NULL,                     -- a JSON object
    first_seen TEXT NOT NULL,
    changed TEXT NOT NULL,
    gone TEXT
);
CREATE INDEX memories_file ON memories (file);
CREATE INDEX memories_digest ON memories (workspace, digest);

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,       -- never used twice: a cache that is behind shows nothing wrong
    workspace INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    file INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    memory INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    heading TEXT NOT NULL,                      -- a JSON list, outermost first
    context TEXT NOT NULL,
    text TEXT NOT NULL,
    digest TEXT NOT NULL                        -- of heading, context and text: what the caches hold
);
CREATE INDEX chunks_memory ON chunks (memory);
CREATE INDEX chunks_file ON chunks (file);
CREATE INDEX chunks_workspace ON chunks (workspace);
CREATE INDEX chunks_digest ON chunks (digest);

CREATE TABLE models (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    recipe INTEGER NOT NULL,                    -- how a chunk's embedded text is made
    dims INTEGER NOT NULL,
    source TEXT NOT NULL,                       -- the settings that load it again, as JSON
    UNIQUE (fingerprint, recipe)
);

CREATE TABLE vectors (
    model INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    digest TEXT NOT NULL,
    vector BLOB NOT NULL,                       -- float16, little endian
    PRIMARY KEY (model, digest)
) WITHOUT ROWID;
