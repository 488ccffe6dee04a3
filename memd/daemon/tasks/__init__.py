"""Everything that the writer can be asked to do, a class and a sentence each.

indexing.py   workspaces that come and go, scans, files that are read again
stores.py     the text index, the model and its vectors, the ledger's file
writing.py    files that are written, undone and imported, memories that are purged
lifecycle.py  accesses, tiers, edges, and what jobs note
"""
