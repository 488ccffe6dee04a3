"""The write path: from files that changed to what the ledger and its caches hold."""
