"""All that is kept: the ledger, the text index and the vectors, each opened in one place."""
