"""The methods of the socket, a sentence each."""

from __future__ import annotations

PROTOCOL = 1
"""Grows when a client of the old number could misunderstand the new daemon."""

METHODS = {
    "hello": "Tells the protocol number, the version, the methods and the limits.",
    "ping": "Answers, to show that the daemon is alive.",
    "query": "Finds the pieces of memory that answer a question.",
    "why_not": "Says why a passage did not come up for a question.",
    "get": "Gives one memory by its key, or lines of a file by its path.",
    "grep": "Finds a text or a regular expression in the files themselves, with the lines around it.",
    "bus": "Ranks whole entries by how often they have the question's words.",
    "list": "Lists the memories and the roles that there are.",
    "subscribe": "Sends each new or changed memory that matches, as it is saved.",
    "unsubscribe": "Ends a subscription of this connection.",
    "eval": "Scores questions of which it is known what the answer is, or probes made from the notes.",
    "sync": "Compares every file with the index and returns when all changes are searchable.",
    "status": "Tells what the daemon watches, what is pending and what is degraded.",
    "rebuild": "Makes the text index and the vectors anew from the files and the ledger.",
    "doctor": "Checks the stores against each other, and mends them when asked to.",
    "shutdown": "Stops the daemon.",
    "workspaces.list": "Lists the directories that hold memory.",
    "workspaces.add": "Begins to watch a directory.",
    "workspaces.remove": "Stops watching a directory and forgets its index, never its files.",
}

READS = frozenset(
    {
        "hello",
        "ping",
        "query",
        "why_not",
        "get",
        "grep",
        "bus",
        "list",
        "subscribe",
        "eval",
        "status",
        "workspaces.list",
    }
)
"""These change nothing, so a client may send them twice."""
