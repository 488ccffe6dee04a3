"""What the writer is asked to do, beyond a call of one function of the indexer.

indexing.py   workspaces that come and go, scans, files that are read again
stores.py     the text index, the model and its vectors
writing.py    files that are written, undone and imported
lifecycle.py  accesses, tiers, edges
"""
