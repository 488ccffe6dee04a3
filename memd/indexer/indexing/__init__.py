"""Indexing: from changed files to what the ledger and its caches hold."""
