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
    "put": "Writes a memory under a key: a new one, or the next version of one that is there.",
    "patch": "Applies a unified diff to a memory, exactly or not at all.",
    "rm": "Takes a memory out of its file; with `hard`, out of the history and the caches too.",
    "gc": "Lists the memories whose ttl has run out, and with `hard` forgets them for good.",
    "files": "Tells which files a memory is about, or which memories are about a file; or adds one.",
    "tags.list": "Lists the tags, with the number of memories that have them.",
    "tags.rename": "Gives a tag another name, in all files at once.",
    "tags.rm": "Takes a tag away, in all files at once.",
    "history": "Tells every version of a memory: when, by whom, how long.",
    "diff": "Tells how two versions of a memory differ, as a unified diff.",
    "restore": "Writes a version of a memory back into its file, or brings back a file that was removed.",
    "log": "Tells everything that was done, by memd and in editors, the newest first.",
    "undo": "Takes a change of text back, or explains why that would overwrite someone.",
    "trash": "Lists what went from the files, and how it comes back.",
    "subscribe": "Sends each new or changed memory that matches, as it is saved.",
    "unsubscribe": "Ends a subscription of this connection.",
    "watch": "Sends what happens as it happens: what is indexed, written, read and moved, by whom, and the jobs.",
    "note": "Adds a section to the note of the day.",
    "save": "Adds a text to the note of the day or to the long-term memory, and says where it went.",
    "write": "Adds an entry to the file of a role, or to the file that all roles share.",
    "read": "Gives the file of a role, or the shared one, as it is.",
    "recent": "Gives what was written lately to the shared file and to a role's, newest first, within a budget.",
    "eval": "Scores questions of which it is known what the answer is, or probes made from the notes.",
    "export": "Gives every memory with its text, its versions and its life, page by page.",
    "import": "Takes in an export: files, versions, lives.",
    "ingest": "Copies memories that other tools keep into a workspace.",
    "backup": "Copies the ledger while it is in use.",
    "sync": "Compares every file with the index and returns when all changes are searchable.",
    "status": "Tells what the daemon watches, what is pending and what is degraded.",
    "rebuild": "Makes the text index and the vectors anew from the files and the ledger.",
    "doctor": "Checks the stores against each other, and mends them when asked to.",
    "topic.memorize": "Makes a new topic and lists it in the index.",
    "topic.refine": "Changes the tags, the summary or the content of a topic.",
    "topic.forget": "Deletes a topic, where it can, and takes it from the index, always.",
    "topic.recall": "Gives one topic as Markdown: title, tags, when it was last updated, content.",
    "topic.general": "Gives the general knowledge and the list of topics, as the index has them.",
    "topic.set_general": "Replaces the general knowledge.",
    "topic.search": "Finds topics by their tags.",
    "topic.list": "Lists the topics.",
    "mcp.open": "Makes an MCP session of the connection, bound to one workspace.",
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
        "read",
        "recent",
        "tags.list",
        "history",
        "diff",
        "log",
        "trash",
        "subscribe",
        "watch",
        "eval",
        "export",
        "status",
        "topic.recall",
        "topic.general",
        "topic.search",
        "topic.list",
        "workspaces.list",
    }
)
"""These change nothing, so a client may send them twice."""

SIGNED = frozenset({"gc", "undo", "import", "ingest"})
"""These name an author and carry no number of their own; all other writes have a `request_id`."""

WHOLE = frozenset(
    {
        "hello",
        "ping",
        "unsubscribe",
        "status",
        "doctor",
        "backup",
        "shutdown",
        "workspaces.list",
        "workspaces.add",
        "workspaces.remove",
    }
)
"""These are about the daemon, or about the list of workspaces, rather than about what is in a workspace."""
