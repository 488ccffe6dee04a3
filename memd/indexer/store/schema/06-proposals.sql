-- Writes that wait for a person.

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
