-- The trend of the nightly exam.

CREATE TABLE exams (
    workspace INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    date TEXT NOT NULL,
    probes INTEGER NOT NULL,
    recall REAL NOT NULL,                       -- share of the probes whose passage was among the first five hits
    p95_ms REAL NOT NULL,
    PRIMARY KEY (workspace, date)
) WITHOUT ROWID;
