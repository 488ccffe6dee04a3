"""The schema of `state.db` as numbered steps. A released step is never edited; new ones go at the end."""

from __future__ import annotations

STEPS: tuple[str, ...] = (
    # 1: the spine: workspaces, files, memories, chunks and their vectors
    """
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
    """,
    # 2: the trend of the nightly exam
    """
    CREATE TABLE exams (
        workspace INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
        date TEXT NOT NULL,
        probes INTEGER NOT NULL,
        recall REAL NOT NULL,                       -- share of the probes whose passage was among the first five hits
        p95_ms REAL NOT NULL,
        PRIMARY KEY (workspace, date)
    ) WITHOUT ROWID;
    """,
    # 3: what was done, by whom, and every text that a memory ever had
    """
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
    """,
    # 4: every file as it was last read, so that one that is removed or emptied can come back byte for byte
    """
    CREATE TABLE pages (
        file INTEGER PRIMARY KEY REFERENCES files (id) ON DELETE CASCADE,
        body BLOB NOT NULL                          -- compressed
    );
    """,
    # 5: how memories live: what was observed of them, what links them, and how it changed
    """
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
    """,
    # 6: writes that wait for a person
    """
    CREATE TABLE proposals (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        workspace INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
        at TEXT NOT NULL,
        who TEXT NOT NULL,
        method TEXT NOT NULL,
        params TEXT NOT NULL,                       -- JSON, as they came
        digest TEXT NOT NULL,                       -- of what is asked for, by whom: the same is kept once
        UNIQUE (workspace, digest)
    );
    """,
    # 7: languages
    """
    ALTER TABLE chunks ADD COLUMN language TEXT;    -- NULL: not looked at; empty: English, or nothing shows it
    CREATE INDEX chunks_foreign ON chunks (workspace) WHERE language > '';
    CREATE INDEX chunks_unread ON chunks (id) WHERE language IS NULL;
    ALTER TABLE workspaces ADD COLUMN polyglot INTEGER NOT NULL DEFAULT 0;   -- 1: asked in another language
    """,
    # 8: what someone or a rule deleted is in no answer; its text stays in its file
    """
    ALTER TABLE memories ADD COLUMN deleted TEXT;   -- since when; NULL: it is not
    DROP INDEX memories_kept;
    CREATE INDEX memories_kept ON memories (workspace, role, date, tier, kind, file, expires, deleted);
    """,
)

VERSION = len(STEPS)
