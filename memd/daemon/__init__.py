"""The daemon: an asynchronous shell around the indexer, with one writer thread and a few readers."""
