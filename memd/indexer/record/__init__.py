"""The record in the ledger: versions of memories, actions, life changes and job runs."""
