-- Every file as it was last read, so that one that is removed or emptied can come back byte for byte.

CREATE TABLE pages (
    file INTEGER PRIMARY KEY REFERENCES files (id) ON DELETE CASCADE,
    body BLOB NOT NULL                          -- compressed
);
