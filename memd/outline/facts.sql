-- The cache of facts; a file's facts are found by the digest of its bytes and its suffix.
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, digest TEXT, suffix TEXT
);
CREATE TABLE IF NOT EXISTS facts (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL, suffix TEXT NOT NULL, body BLOB NOT NULL, UNIQUE (digest, suffix)
);
