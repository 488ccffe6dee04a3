"""What was done and what was: versions, deeds, shifts and runs, as the ledger keeps them."""
